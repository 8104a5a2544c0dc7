"""What a reader works out by hand, in plain Python and double precision: matrices are lists of rows. Shares nothing with Quern; the
judge of examples/manual in worked_test.py."""
import math


def times(a, b):
    return [[sum(x * b[k][j] for k, x in enumerate(row)) for j in range(len(b[0]))] for row in a]


def plus(a, b):
    return [[x + y for x, y in zip(r, s)] for r, s in zip(a, b)]


def transposed(a):
    return [list(column) for column in zip(*a)]


def shifted(a, bias):
    return [[x + b for x, b in zip(row, bias)] for row in a]


def relu(a):
    return [[max(x, 0.0) for x in row] for row in a]


def softmax(row):
    largest = max(row)
    powers = [math.exp(x - largest) for x in row]
    return [p / sum(powers) for p in powers]


def causal(t, s):
    return s <= t


def weights(q, k, seen=causal, bias=lambda t, s: 0.0):
    """softmax(q k / sqrt(K) + bias) over the positions that are seen."""
    rows = []
    for t, query in enumerate(q):
        scores = [sum(x * y for x, y in zip(query, key)) / math.sqrt(len(query)) + bias(t, s) if seen(t, s) else -math.inf for s, key in enumerate(k)]
        rows.append(softmax(scores))
    return rows


def normalized(x, scale, shift, eps=1e-5):
    rows = []
    for row in x:
        mean = sum(row) / len(row)
        root = math.sqrt(sum((e - mean) ** 2 for e in row) / len(row) + eps)
        rows.append([(e - mean) / root * g + b for e, g, b in zip(row, scale, shift)])
    return rows


# ---- the specs: parameters by name and the words of one text to scores of words at each position

def one_head(p, words):
    x = [p["E"][w] for w in words]
    q, k, v = times(x, p["W_Q"]), times(x, p["W_K"]), times(x, p["W_V"])
    return times(times(weights(q, k), v), p["W_O"])


def feed_forward(p, words, residual=True):
    x = [p["E"][w] for w in words]
    q, k, v = times(x, p["W_Q"]), times(x, p["W_K"]), times(x, p["W_V"])
    context = times(weights(q, k), v)
    change = shifted(times(relu(shifted(times(context, p["W_1"]), p["b_1"])), p["W_2"]), p["b_2"])
    return times(plus(context, change) if residual else change, p["W_O"])


def two_blocks(p, words, heads=2, blocks=2):
    x = [p["embed.weight"][w] for w in words]
    for i in range(blocks):
        get = lambda name: p[f"block.{i}.{name}"]
        project = lambda y, name: times(y, transposed(get(name + ".weight")))  # stored [out, in]
        h = normalized(x, get("norm1.weight"), get("norm1.bias"))
        q, k, v = project(h, "q"), project(h, "k"), project(h, "v")
        size = len(q[0]) // heads
        cut = lambda a, head: [row[head * size:(head + 1) * size] for row in a]
        parts = [times(weights(cut(q, n), cut(k, n)), cut(v, n)) for n in range(heads)]
        joined = [sum((part[t] for part in parts), []) for t in range(len(words))]
        x = plus(x, project(joined, "o"))
        h = relu(shifted(project(normalized(x, get("norm2.weight"), get("norm2.bias")), "in"), get("in.bias")))
        x = plus(x, shifted(project(h, "out"), get("out.bias")))
    return times(normalized(x, p["norm.weight"], p["norm.bias"]), transposed(p["head.weight"]))


def loss(model, p, tokens, labels):
    """Mean of -log P(label) over the labels that are not -100."""
    terms = []
    for words, row in zip(tokens, labels):
        for scores, label in zip(model(p, words), row):
            if label != -100:
                terms.append(-math.log(softmax(scores)[label]))
    return sum(terms) / len(terms)


# ---- gradients

def one_head_gradient(p, tokens, labels):
    """The nine steps of "From first principles", example 3: from the loss back to W_O, W_V, W_Q, W_K (the words' table is fixed)."""
    total = {name: [[0.0] * len(p[name][0]) for _ in p[name]] for name in ("W_Q", "W_K", "W_V", "W_O")}
    counted = sum(label != -100 for row in labels for label in row)
    for words, row in zip(tokens, labels):
        x = [p["E"][w] for w in words]
        q, k, v = times(x, p["W_Q"]), times(x, p["W_K"]), times(x, p["W_V"])
        weight = weights(q, k)
        context = times(weight, v)
        scores = times(context, p["W_O"])
        # 1, 2: P - 1 at the label; W_O
        to_scores = [[(prob - (j == label)) / counted for j, prob in enumerate(softmax(s))] if label != -100 else [0.0] * len(s)
                     for s, label in zip(scores, row)]
        step = {"W_O": times(transposed(context), to_scores)}
        # 3, 4: the context, the weights
        to_context = times(to_scores, transposed(p["W_O"]))
        to_weight = times(to_context, transposed(v))
        # 5: through the softmax: w (g - sum g w), and the scale of the scores
        to_score = [[w * (g - sum(a * b for a, b in zip(gs, ws))) / math.sqrt(len(q[0])) for w, g in zip(ws, gs)] for ws, gs in zip(weight, to_weight)]
        # 6, 7: queries and keys; 8, 9: values
        step["W_Q"] = times(transposed(x), times(to_score, k))
        step["W_K"] = times(transposed(x), times(transposed(to_score), q))
        step["W_V"] = times(transposed(x), times(transposed(weight), to_context))
        for name, gradient in step.items():
            total[name] = plus(total[name], gradient)
    return total


def slopes(function, p, names=None, step=1e-4):
    """The gradient of function(p) by fourth-order central differences, element by element."""
    def changed(value, path, by):
        if not path:
            return value + by
        return [changed(v, path[1:], by) if i == path[0] else v for i, v in enumerate(value)]

    def slope(name, path):
        at = lambda by: function({**p, name: changed(p[name], path, by)})
        return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)

    def walk(name, value, path):
        return [walk(name, v, path + [i]) for i, v in enumerate(value)] if isinstance(value, list) else slope(name, path)

    return {name: walk(name, p[name], []) for name in names or p}


def stepped(p, gradient, rate):
    """Plain gradient descent: W - rate dL/dW."""
    move = lambda x, g: [move(a, b) for a, b in zip(x, g)] if isinstance(x, list) else x - rate * g
    return {name: move(value, gradient[name]) if name in gradient else value for name, value in p.items()}
