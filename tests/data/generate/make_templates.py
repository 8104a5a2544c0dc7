#!/usr/bin/env python3
"""What transformers' template engine makes of templates: templates.json beside the models' folders.

usage: make_templates.py OUTPUT.json

The templates are written for these tests, in the forms that published chat templates have; `result` is null where Jinja
raises an error."""
import json
import pathlib
import sys

from transformers.utils.chat_template_utils import _compile_jinja_template

TALK = [{"content": "You are terse.", "role": "system"}, {"content": "  Hi!\n", "role": "user"},
        {"content": "Hello <b>you</b>.", "role": "assistant"}, {"content": "Größe 数字?", "role": "user"}]
PARTS = [{"content": [{"text": "see", "type": "text"}, {"type": "image"}], "role": "user"}]
NAMES = {"messages": TALK, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}

CHATS = {
    "headers": """{{ bos_token }}{% for message in messages %}{{ '<|head|>' + message['role'] + '<|end|>\n\n' + message['content'] | trim + '<|eot|>' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|head|>assistant<|end|>\n\n' }}{% endif %}""",
    "first in loop": """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '[' + message['role'] + ']' + message['content'] %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}""",
    "system moved": """{%- if messages[0]['role'] == 'system' -%}
    {%- set system_message = messages[0]['content'] -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{- raise_exception('Roles must alternate') -}}
    {%- endif -%}
    {%- if message['role'] == 'user' -%}
        {%- if loop.last and system_message is defined -%}
            {{- '[INST] ' + system_message + '\n\n' + message['content'] + '[/INST]' -}}
        {%- else -%}
            {{- '[INST] ' + message['content'] + '[/INST]' -}}
        {%- endif -%}
    {%- elif message['role'] == 'assistant' -%}
        {{- ' ' + message['content'] + eos_token -}}
    {%- endif -%}
{%- endfor -%}""",
    "turns": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}{{ '<image>' }}{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{'<turn>model\n'}}{%- endif -%}
""",
    "thinking": """{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not(message.content.startswith('<tool>') and message.content.endswith('</tool>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning is defined and message.reasoning is not none %}
            {%- set reasoning = message.reasoning %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\n' + content }}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
""",
    "macros": """{%- macro show(items, level=0, sep=', ') -%}
{%- for item in items -%}{{ '-' * level }}{{ item }}{% if not loop.last %}{{ sep }}{% endif %}{%- endfor -%}
{%- endmacro -%}
{{ show(['a', 'b']) }}|{{ show(range(3), level=2, sep='/') }}|{{ show([]) }}""",
    "tools": """{% if tools is defined and tools %}{{ tools | tojson(indent=4) }}{% else %}none{% endif %}
{% for message in messages | selectattr('role', 'equalto', 'user') | list %}{{ message.content | tojson }};{% endfor %}
{{ messages | map(attribute='role') | join(' ') | upper }}""",
    "generation mark": """{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.role }}{% endif %}{% endfor %}""",
}

# One line each: what the language does.
LINES = r"""
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 1.5 + 1 }} {{ 1e3 }} {{ 10 / 5 }}
{{ 0.1 + 0.2 }} {{ 1e16 }} {{ 1e-5 }} {{ 123456789.0 }} {{ 1 == 1.0 }} {{ true + 1 }} {{ 3.0 // 2 }} {{ -2 ** 2 }} {{ 1 < 2 < 3 }} {{ 3 > 2 > 2 }}
{{ [1, 'a', none, true, 1.5, {'k': [1]}] }} {{ 'it\'s' }} {{ ["it's", 'a"b', 'x\ny'] }} {{ (1, 2)[1] }}
{{ 'abc'[0] }}{{ 'abc'[-1] }}{{ 'abc'[1:] }}{{ 'abcdef'[::-1] }}{{ 'abcdef'[1:5:2] }}{{ 'größe'[2:4] }}{{ [1,2,3][-2:] }}{{ [1,2,3,4][::-2] }}{{ 'abc'[5:] }}{{ 'abc'[-10:2] }}
{{ 'a' ~ 1 ~ none ~ missing ~ 'b' }} {{ 'x' * 3 }} {{ 3 * 'ab' }} {{ [1] + [2] }}
{{ missing }}|{{ missing is defined }}|{{ missing | default('d') }}|{{ '' | default('d') }}|{{ '' | default('d', true) }}|{{ messages[9] is defined }}|{{ messages[0].nothing is defined }}
{{ missing.attribute }}
{{ messages[0].nothing.more }}
{{ missing + 'a' }}
{{ missing() }}
{{ 'a' if false }}|{{ 'a' if true else 'b' }}|{{ 'a' if 0 else 'b' if '' else 'c' }}
{{ not true or true and false }} {{ 1 in [1, 2] }} {{ 'b' in 'abc' }} {{ 'x' not in 'abc' }} {{ 'role' in messages[0] }} {{ not 1 in [2] }}
{{ none is none }} {{ 1 is number }} {{ 'a' is string }} {{ [] is iterable }} {{ {} is mapping }} {{ 3 is odd }} {{ 4 is divisibleby 2 }} {{ 4 is not divisibleby(3) }} {{ 1 is sameas 1 }} {{ true is true }} {{ 1 is boolean }} {{ 2 is in [1, 2] }}
{{ 'a' is equalto 'a' }} {{ 1 is eq(1) }} {{ 1 is lt 2 }} {{ 5 is ge 5 }} {{ 'A' is upper }} {{ 1.5 is float }} {{ true is integer }} {{ 'x' is sequence }} {{ range is callable }}
{{ '  pad ' | trim }}|{{ 'xxaxx' | trim('x') }}|{{ ' a b '.strip() }}|{{ 'xxaxy'.strip('xy') }}|{{ '--a--'.lstrip('-') }}|{{ '--a--'.rstrip('-') }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b c '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ 'a  b c'.split(none, 1) }} {{ 'abc'.split('x') }}
{{ 'hello world' | title }} {{ 'hELLO wORLD' | capitalize }} {{ 'aBc' | upper }} {{ 'aBc'.lower() }} {{ 'a-b' | replace('-', '+') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'aaa' | replace('a', 'b', 2) }} {{ "it's o'clock" | title }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abcabc'.find('c') }} {{ 'abc'.find('x') }} {{ 'abab'.count('ab') }} {{ '-'.join(['a', 'b']) }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ '12'.isdigit() }} {{ 'a\nb\n'.splitlines() }}
{{ [3, 1, 2] | sort }} {{ [3, 1, 2] | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ [1, 2, 1] | unique | list }} {{ [1, 2] | sum }} {{ [1, 5, 2] | max }} {{ [4, 2] | min }} {{ [1, 2, 3] | first }} {{ 'abc' | last }} {{ [1, 2, 3] | reverse | list }} {{ 'abc' | reverse }}
{{ ['a', 'b'] | map('upper') | list }} {{ [1, 2, 3, 4] | select('odd') | list }} {{ [1, 2, 3] | reject('equalto', 2) | list }} {{ [0, 1, ''] | select | list }} {{ messages | rejectattr('role', 'in', ['user', 'system']) | map(attribute='content') | list }}
{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %} {{ {'b': 1, 'a': 2}.items() | map(attribute=0) | list }} {{ {'b': 1}.get('c', 5) }} {{ {'b': 1}.get('c') }} {{ {'b': 1}['b'] }} {{ {'b': 1}.b }} {{ {'b': 1}.keys() | list }} {{ ({'b': 1} | items | first)[1] }} {{ {'b': 1} | length }} {{ 'größe' | length }}
{{ [1, {'a': 'ü"\n'}, none, true, 1.5] | tojson }} {{ {'a': [], 'b': {}, 'c': [1, 2]} | tojson(indent=2) }} {{ '<a>' | tojson }}
{{ '3' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ 3.9 | int }} {{ '2.5' | float }} {{ 2.567 | round(2) }} {{ 2.5 | round }} {{ -3 | abs }} {{ 3 | string + '!' }} {{ none | string }}
{{ 'a\nb\n\nc' | indent(2) }}|{{ 'a\nb' | indent(1, true) }}
{% for i in range(3) %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for i in range(6) if i % 2 %}{{ i }}{{ loop.last }}{% else %}none{% endfor %}{% for i in [] %}x{% else %}none{% endfor %}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for a, b in [[1, 2], [3, 4]] %}{{ a + b }} {% endfor %}
{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}
{% set ns = namespace(a=1) %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{% set a, b = [1, 2] %}{{ b }}{% set t %}x{{ a }}y{% endset %}{{ t }}
{% macro f(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) }}{{ f(1, b=3) }}{{ f('x') | upper }}{{ f() }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(4) }}
{% set g = 5 %}{% macro f() %}{{ g }}{{ h }}{% endmacro %}{% set h = 6 %}{% for g in [1] %}{{ f() }}{% endfor %}
a {%- if true %} b {%- endif -%} c {{- ' d ' -}} e {# comment #} f {#- gone -#} g
{% raw %}{{ not }} {% this %}{% endraw %} {{ '{{' }}
{{ 1 if messages|length > 2 and messages[0]['role'] == 'system' else 2 }} {{ (messages | first).role }} {{ messages[-1].content[:3] }} {{ messages | map(attribute='content.0') | join }}
{{ [1, 2, 3] | join(', ') }} {{ messages | join('|', attribute='role') }} {{ 'abc' | list }} {{ "a" "b" }} {{ '\u00e9\x41\\n' }} {{ 1_000 }} {{ {} }} {{ [] }} {{ () | length }}
{{ range(2, 10, 3) | list }} {{ range(5, 0, -2) | list }} {{ dict(a=1) }} {{ loop is defined }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }}
{{ 1 + 'a' }}
{{ 'a' < 1 }}
{{ 1 / 0 }}
{{ [] | first }}|{{ [] | max }}
{{ raise_exception('no') }}
{{ 'a' | nofilter }}
{{ 'a' is notest }}
{% if %}{% endif %}
{% for x in messages %}
{{ 'open
{% include 'x' %}
{{ messages.append(1) }}
{{ ''.__class__ }}
{{ messages[0].update({'a': 1}) }}
{% set messages[0].x = 1 %}
"""

BLOCKS = [
    "  {% if true %}\n    a\n  {% endif %}\nb\n",
    "x\n  {%- if true %}\n    a\n  {%+ endif %}\nb\n\n",
    "{% for m in messages %}\n* {{ m.role }}\n{% endfor %}\nend",
    "  {# note #}\nx {# y #}\n  z\n",
    "a\n   {{ 1 }}\n   {{- 2 }}\n{% set x = 1 +%}\nb",
    "{% if true %}\r\n  a\r\n{% endif %}\r\n",
    "a {% raw %}\n  {{ x }}\n  {% endraw %}\nb",
    "{%- set a = 1 -%}\n\n   {{ a }}   \n{%- set b = 2 %}\n",
]


def render(template, names):
    try:
        return _compile_jinja_template(template).render(**names)
    except Exception:
        return None


cases = [(text, NAMES) for text in CHATS.values()]
cases += [(CHATS["headers"], NAMES | {"add_generation_prompt": False}), (CHATS["system moved"], NAMES | {"messages": TALK[1:]}),
          (CHATS["system moved"], NAMES | {"messages": TALK[2:]}), (CHATS["turns"], NAMES | {"messages": PARTS}),
          (CHATS["thinking"], NAMES | {"enable_thinking": False}), (CHATS["tools"], NAMES | {"tools": [{"name": "f", "parameters": {"a": [1, 2.5]}}]}),
          (CHATS["thinking"], NAMES | {"messages": TALK[:2] + [{"content": "<think>\nhm\n</think>\n\nyes", "role": "assistant"}] + TALK[3:]})]
cases += [(line, NAMES) for line in LINES.strip("\n").split("\n")] + [(text, NAMES) for text in BLOCKS]
made = [{"template": template, "names": names, "result": render(template, names)} for template, names in cases]
shared = [json.loads(text) for text in sorted({json.dumps(case["names"], sort_keys=True) for case in made})]
for case in made:
    case["names"] = shared.index(case["names"])
pathlib.Path(sys.argv[1]).write_text(json.dumps({"names": shared, "cases": made}, ensure_ascii=False, indent=0) + "\n")
