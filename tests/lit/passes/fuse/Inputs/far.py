"""A function whose contraction is used by an addition that stands so many operations behind it."""
import sys

X, M = "!quern.tensor<real[T, K = 4]>", "!quern.tensor<real[K = 4]>"
print(f"""func.func @forward(%x: {X} {{quern.name = "x"}}) -> ({X} {{quern.name = "y"}}, {M} {{quern.name = "z"}}) {{
  %w = quern.param [["w"]] : !quern.tensor<real[O = 4, K = 4]>
  %v0 = quern.param [["v"]] : {M}
  %c = quern.contract %x, %w over ["K"] : ({X}, !quern.tensor<real[O = 4, K = 4]>) -> !quern.tensor<real[T, O = 4]>""")
count = int(sys.argv[1])
for i in range(count):
    print(f"  %v{i + 1} = quern.sin %v{i} : ({M}) -> {M}")
print(f"""  %r = quern.rename %c ["O"] to [#quern.dim<K = 4>] : (!quern.tensor<real[T, O = 4]>) -> {X}
  %y = quern.add %r, %x : ({X}, {X}) -> {X}
  return %y, %v{count} : {X}, {M}
}}""")
