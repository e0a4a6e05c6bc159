"""Small templates, each about one construct, for template_golden.py."""

from __future__ import annotations

# Values that snippets use.
CONTEXT = {
    "s": "Hello, World",
    "u": "Ünïcödé ß ǆ Σας 日本 🎉",
    "ws": " \t\n x y \u00a0\u3000",
    "empty": "",
    "q": "it's \"both\" \\ and\ttab\nnewline\u007f\u200b",
    "n": 7,
    "neg": -7,
    "zero": 0,
    "f": 2.5,
    "big": 18446744073709551615,
    "t": True,
    "no": False,
    "nil": None,
    "l": [3, 1, 2],
    "words": ["banana", "Apple", "cherry", "apple"],
    "nested": [[1, 2], [3, 4]],
    "d": {"b": 1, "a": "x", "items": [1], "c": None},
    "users": [{"name": "Bob", "age": 30, "on": True}, {"name": "alice", "age": 25, "on": False}, {"name": "Cid", "age": 30}],
    "html": "<a href=\"x\">'&'</a>",
    "long": "one\ntwo\r\nthree\x0bfour\n\nfive",
}

# Rendered as {{ ... }}.
EXPRESSIONS = r"""
1
1.0
1e3
1.5e-7
1_000
0x1F
0o17
0b101
12345678901234567890
1e16
123456789012345680.0
1e22
0.0001
0.00001
-0.0
1/3
'a' "b" 'c'
'\n\t\\\'\"'
'\x41\u00e9\U0001F389\101'
'a\qb'
true
True
false
none
None
nil
[]
[1, 'a', 2.0, none, true]
[1,]
()
(1,)
(1, 2)
1, 2
{}
{'a': 1, 'b': [2]}
{1: 'x', 'y': {2: 3}}
{'a': 1, 'a': 2}
s
u
q
[q]
[u]
['a"b', "a'b", 'a\'b"c']
['\x00\x1f\x7f\x85\xa0\u2028\ufeff\U000e0001é']
n + 1
n - 10
n * 3
n / 2
n // 2
neg // 2
n % 3
neg % 3
n % -3
7.5 // 2
-7.5 // 2
7.5 % 2
-7.5 % 2
7.5 % -2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
2.0 ** 3
f + 1
f * 2
1 + 1.0
6 / 2
t + 1
t + t
-t
+5
+t
-n
--n
big
big + 1
big - 1
'a' + 'b'
'ab' * 3
3 * 'ab'
'ab' * 0
'ab' * -1
[1] + [2]
[1, 2] * 2
(1,) + (2,)
'a' ~ 1 ~ 2.5 ~ none ~ true ~ [1]
1 ~ 2 + 3
1 ~ 2 * 3
undefined_thing
undefined_thing ~ 'x'
[undefined_thing]
1 == 1
1 == 1.0
1 == true
'a' == 'a'
'1' == 1
none == false
[1] == [1]
[1] == (1,)
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
undefined_thing == undefined_other
undefined_thing == none
1 != 2
1 < 2
2 <= 2
3 > 2
1 >= 2
1 < 2 < 3
1 < 3 < 2
1 < 2 > 0
'a' < 'b'
'B' < 'a'
'Z' < 'é'
[1, 2] < [1, 3]
[1] < [1, 0]
(1, 'a') < (1, 'b')
1 in l
9 in l
9 not in l
'ell' in s
'' in s
'x' not in s
'a' in d
'z' in d
1 in d
not 1 in l
'x' in undefined_thing
1 in [1.0]
true in [1]
(1, 2) in [(1, 2)]
not true
not none
not ''
not 'a'
not []
not undefined_thing
t and 1
no and 1
t or 1
no or 'x'
'' or [] or 'last'
1 and 2 and 3
not no and t
no or t and no
1 if t else 2
1 if no else 2
1 if no
(1 if no) is defined
'a' if no else 'b' if no else 'c'
1 if t else 2 if t else 3
s[0]
s[-1]
s[100]
s[100] is defined
u[0]
u[1:5]
u[-1]
u[::-1]
u[2:-2:3]
s[2:5]
s[:5]
s[7:]
s[-5:-1]
s[::2]
s[::-2]
s[5:2]
s[100:]
s[-100:3]
s[5:2:-1]
s[:]
l[0]
l[-1]
l[3]
l[1:]
l[::-1]
l[-2:]
l[10:]
l[:-1]
l[t]
l[0:3:2]
(1, 2, 3)[1:]
nested[1][0]
nested.1.0
nested[0,1]
d.b
d['b']
d.zzz
d.zzz is defined
d['zzz'] is undefined
d.items is defined
d['items']
d.c
d.c is none
d.pop is defined
d.get('b')
d.get('zzz')
d.get('zzz', 5)
d.keys()
d.values()
d.items()
d.items() | list
d | list
d | length
d.keys() | list
d.copy() == d
{'x': {'y': 1}}.x.y
l.count(3)
l.index(2)
[1, 2, 1].count(1)
s.zzz is defined
nil.x is defined
n.x is defined
s.upper()
s.lower()
u.upper()
u.lower()
u.title()
u.capitalize()
u.swapcase()
'ΑΣ ΑΣΑ Σ'.lower()
"they're bill's 1st-class".title()
'ǆ'.title()
'ŉ ﬁ ß'.upper()
'İI'.lower()
s.title()
'hELLO wORLD'.capitalize()
ws.strip()
ws.lstrip()
ws.rstrip()
'xxaxx'.strip('x')
'xyaxy'.strip('yx')
'xxaxx'.lstrip('x')
'xxaxx'.rstrip('x')
'日本日'.strip('日')
'  a '.strip(none)
'abc'.strip('')
'a,b,,c'.split(',')
'a,b,,c'.split(',', 1)
'a,b,,c'.split(',', 0)
'a,b,c'.split(',', maxsplit=1)
' a  b\tc\n'.split()
' a  b\tc\n'.split(none, 1)
' a  b\tc '.split(none, 0)
''.split()
''.split(',')
'aXXbXXc'.split('XX')
'a</think>b</think>c'.split('</think>')[-1]
'a,b,c'.rsplit(',', 1)
'a,b,c'.rsplit(',')
' a  b c '.rsplit(none, 1)
' a  b c '.rsplit()
'aaa'.rsplit('aa')
'aaa'.split('aa')
long.splitlines()
long.splitlines(true)
''.splitlines()
'a=b=c'.partition('=')
'a=b=c'.rpartition('=')
'abc'.partition('=')
'abc'.rpartition('=')
s.startswith('Hello')
s.startswith('World')
s.startswith(('x', 'He'))
s.startswith(())
s.startswith('World', 7)
s.startswith('', 100)
s.endswith('World')
s.endswith(('x', 'ld'))
s.endswith('Hello', 0, 5)
s.removeprefix('Hello')
s.removesuffix('World')
s.removeprefix('x')
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('', '-')
'abc'.replace('', '-', 2)
s.replace('zzz', 'y')
'aaa'.replace('aa', 'b')
u.replace('日', 'day')
s.find('o')
s.rfind('o')
s.find('zzz')
s.find('o', 5)
s.find('o', 5, 6)
s.rfind('o', 0, 6)
s.find('')
s.rfind('')
u.find('日')
u.rfind('S')
s.index('W')
s.count('l')
s.count('')
s.count('l', 5)
'aaaa'.count('aa')
', '.join(['a', 'b'])
''.join([])
'-'.join('abc')
'{} and {}'.format(1, 'b')
'{0}{1}{0}'.format('a', 2)
'{x}!{{}}'.format(x=none)
'{!r}'.format('a')
'a'.ljust(3) ~ '|'
'a'.rjust(3)
'a'.center(4) ~ '|'
'ab'.center(5) ~ '|'
'abc'.center(6, '*')
'7'.zfill(3)
'-7'.zfill(4)
'12'.isdigit()
'1a'.isdigit()
''.isdigit()
'²'.isdigit()
'٣'.isdecimal()
'½'.isnumeric()
'abc'.isalpha()
'日本'.isalpha()
'a1'.isalnum()
'a 1'.isalnum()
' \t'.isspace()
'AB1'.isupper()
'ab1'.islower()
'1'.isupper()
'Aé'.isascii()
'%s' % 'x'
'%s and %d' % (1, 2)
'%5.2f|' % 3.14159
'%-5s|%5s' % ('a', 'b')
'%05d %+d' % (42, 7)
'%x %X %o' % (255, 255, 8)
'%(a)s' % {'a': 1}
'%%' % ()
'%r' % 'a'
'%.2s' % 'abc'
'%e' % 12345.678
'%s' | format('x')
'%(k)s' | format(k='v')
s | upper
s | lower
s | title
u | title
'a-b (c) [d] {e} <f g' | title
s | capitalize
s | length
u | length
l | count
empty | length
undefined_thing | length
range(5) | length
ws | trim
'xxaxx' | trim('x')
5 | trim
none | trim
s | replace('l', 'L')
s | replace('l', 'L', 1)
123 | replace(2, 'x')
s | first
s | last
l | first
l | last
[] | first
[] | first is defined
[] | last is defined
d | first
d | last
l | join
l | join(', ')
users | join(', ', attribute='name')
words | join(d='|')
'abc' | join('-')
[1, none, 'a', undefined_thing] | join('/')
l | sort
l | sort(reverse=true)
words | sort
words | sort(case_sensitive=true)
users | sort(attribute='age') | map(attribute='name') | list
users | sort(attribute='age,name') | map(attribute='name') | list
users | sort(attribute='name', reverse=true) | map(attribute='name') | list
words | unique | list
words | unique(case_sensitive=true) | list
[1, 1.0, true, 2] | unique | list
l | reverse | list
s | reverse
u | reverse
words | map('upper') | list
words | map('replace', 'a', 'o') | list
users | map(attribute='name') | join(', ')
users | map(attribute='on', default='?') | list
users | map(attribute='zzz') | list
nested | map('first') | list
nested | map(attribute=0) | list
nested | map('join', '-') | list
l | map('string') | list
[1, 2, 3, 4] | select('odd') | list
[1, 2, 3, 4] | reject('odd') | list
[0, 1, '', 'a', none] | select | list
[0, 1, '', 'a', none] | reject | list
[1, 2, 3] | select('gt', 1) | list
[1, 2, 3] | select('>=', 2) | list
[1, 2, 3] | select('in', [1, 3]) | list
users | selectattr('on') | map(attribute='name') | list
users | rejectattr('on') | map(attribute='name') | list
users | selectattr('age', 'equalto', 30) | map(attribute='name') | list
users | selectattr('age', '==', 30) | list | length
users | selectattr('on', 'defined') | list | length
users | rejectattr('on', 'undefined') | list | length
d | items | list
d | dictsort
{'b': 1, 'A': 2, 'a': 3} | dictsort
{'b': 1, 'A': 2, 'c': 0} | dictsort(true)
{'b': 1, 'A': 2, 'c': 0} | dictsort(by='value')
{'b': 1, 'A': 2} | dictsort(reverse=true)
undefined_thing | items | list
d | tojson
users | tojson
u | tojson
q | tojson
'</script>&\'' | tojson
[1, 2.0, 1e16, 1e-7, true, none, 'x'] | tojson
(1, 2) | tojson
{} | tojson
[] | tojson
{1: 2, none: 3, true: 4, 1.5: 5} | tojson
d | tojson(indent=2)
nested | tojson(indent=4)
{'a': [], 'b': {}} | tojson(indent=2)
{'a': 1} | tojson(indent=0)
{'a': 1} | tojson(indent='\t')
u | tojson(ensure_ascii=true)
{'b': 1, 'a': 2} | tojson(sort_keys=true)
{'b': 1, 'a': [2, 3]} | tojson(separators=(',', ':'))
undefined_thing | default('x')
undefined_thing | d('x')
none | default('x')
'' | default('x')
'' | default('x', true)
'' | default('x', boolean=true)
d.zzz | default
'42' | int
'42.9' | int
'x' | int
'x' | int(5)
'x' | int(default=-1)
' 42 ' | int
'1_000' | int
'ff' | int(base=16)
'0xff' | int(0, 16)
'0b11' | int(0, 2)
3.9 | int
-3.9 | int
none | int
true | int
[] | int(9)
'3.5' | float
'x' | float
'x' | float(1.5)
' 1e3 ' | float
'inf' | float
'-Infinity' | float
3 | float
none | float
5 | string
none | string
d | string
true | string
'a' | safe
5 | safe
-5 | abs
-5.5 | abs
5 | abs
42.55 | round
42.55 | round(1)
42.55 | round(1, 'floor')
42.55 | round(1, 'ceil')
42 | round
2.5 | round
3.5 | round
-2.5 | round
1234 | round(-2)
1250 | round(-2)
2.675 | round(2)
1234.5 | round(-2)
l | sum
undefined_thing | sum
undefined_thing | sort
'cab' | sort
'aAb' | unique | list
d | sort
d | unique | list
d | map('upper') | join
d | select('in', 'ab') | list
'cab' | min
d | max
undefined_thing | reverse | list
d | batch(2) | list
''.join(d)
d | join(',')
users | sum(attribute='age')
[1, 2.5] | sum
l | sum(start=10)
l | min
l | max
words | min
words | max
[] | max is defined
users | max(attribute='age')
l | list
'abc' | list
d | list
undefined_thing | list
range(3) | list
long | indent
long | indent(2)
long | indent(2, true)
long | indent(2, blank=true)
long | indent('> ')
'' | indent
'a\n' | indent
html | escape
html | e
'a' | center(5) ~ '|'
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3, 4, 5] | batch(2, 'x') | list
users[0] | attr('name') is defined
range(5)
range(1, 5) | list
range(5, 0, -2) | list
range(0) | list
range(1, 10, 3) | list
range(5)[1:3]
range(5)[-1]
5 in range(5)
dict(a=1, b=2)
dict([('a', 1)])
dict({'a': 1}, b=2)
namespace(a=1).a
namespace(a=1).b is defined
namespace({'x': 5}, y=6).x
namespace(a=1)
undefined_thing is defined
n is defined
undefined_thing is undefined
nil is none
n is none
undefined_thing is none
t is true
1 is true
no is false
0 is false
t is boolean
1 is boolean
n is integer
t is integer
f is integer
f is float
n is number
t is number
s is number
s is string
n is string
d is mapping
l is mapping
l is sequence
s is sequence
d is sequence
n is sequence
range(3) is sequence
undefined_thing is sequence
undefined_thing is callable
undefined_thing in d
undefined_thing | last
d[undefined_thing] is defined
{(1, 2): 3}[(1, 2)]
(0 | map("upper")) | list
none | select | list
none is sequence
d.items() is sequence
(l | map('string')) is sequence
l is iterable
s is iterable
d is iterable
n is iterable
none is iterable
undefined_thing is iterable
(l | map('string')) is iterable
range is callable
n is callable
n is odd
n is even
neg is odd
8 is divisibleby 4
8 is divisibleby(3)
n is eq 7
n is equalto(7)
n is ne 7
n is lt 8
n is gt 8
n is le 7
n is ge 8
n is sameas 7
nil is sameas none
1 is in [1, 2]
1 is not in [1, 2]
n is not none
n is not defined
s is not string
'abc' is lower
'ABC' is upper
'aBc' is lower
'upper' is filter
'odd' is test
not n is none
n is none or n is odd
n is odd and f is float
-1 | abs
(-1) | abs
1 + 2 | string
(1 + 2) | string
-n | string
'a' ~ 'b' | upper
not 'a' | length > 5
s | length > 5 and t
[1, 2, 3] | length == 3
{'a': 1}['a']
[1, 2][0] + 1
'abc'[1] ~ 'abc'[-1]
(1 if t else 2) + 1
s.split(', ')[0].upper()
(s | upper).lower()
('a' if t) ~ 'b'
[[1, 2], [3]] | sum(start=[])
l | sort | first
l | map('abs') | sum
'%s' % none
'a' 'b' | upper
loop is defined
{'a': 1}.items() | list | first | first
none | tojson
'é' | tojson
1.0 | tojson
3.0 * 2
1e308 * 10
-1e308 * 10
(1e308 * 10) | tojson
10 % 3.5
5 // 0.3
0.1 + 0.2
100000000000000000000 + 1
9007199254740993
9007199254740993 == 9007199254740992.0
'10' < '9'
"a\%nb"
"""

# Rendered as they are. %n is a line break (see ESCAPES), so that every line of the list is one template.
TEMPLATES = r"""
plain text
{{ 1 }}%n
a%n%n
{{ 1 }}%n%n{{ 2 }}
{# comment #}x
a{# comment #}%nb
a %n  {# comment #}%n b
a %n  {#- comment -#}%n b
{% if t %}%nyes%n{% endif %}%nend
  {% if t %}%n  yes%n  {% endif %}%n  end
x  {% if t %}%n  yes%n  {% endif %}  %n  end
x  {%- if t %}%n  yes%n  {%- endif %}  %n  end
x  {% if t -%}%n  yes%n  {% endif -%}  %n  end
x  {%- if t -%}%n  yes%n  {%- endif -%}  %n  end
x%n  {%+ if t +%}%n  yes%n  {%+ endif +%}%n  end
x%n  {%+ if t %}yes{% endif %}
  {{ 1 }}  %n  {{ 2 }}
  {{- 1 -}}  %n  {{ 2 }}
a %n {{- 1 }} %n {{ 2 -}} %n b
a%u00a0%u3000{{- 1 -}}%u2003%nb
a%n%u00a0%u3000{% if t %}b{% endif %}
{{ '{{' }}{{ "}}" }}
{{ {'a': {'b': 1}}.a.b }}
{{ {'a': {}} }}
{ { x } } {{ 1 }} { % %} }}
{%if t%}a{%endif%}
{%-if t-%} a {%-endif-%}
{{1}}{{-2}}{{ -2 }}
{{-%nn%n-}} x
{% set x %} a {% endset %}[{{ x }}]
{% set x | upper %}abc{{ 1 }}{% endset %}{{ x }}
{% set x | replace('a', 'b') | upper %}abc{% endset %}{{ x }}
{% set x = 1 %}{{ x }}
{% set x, y = 1, 2 %}{{ x }}{{ y }}
{% set (x, y) = (1, 2) %}{{ x }}{{ y }}
{% set x = 1, 2 %}{{ x }}
{% set x = 1 if no else 2 %}{{ x }}
{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{% set ns.b = 'x' %}{{ ns.a }}{{ ns.b }}
{% set ns = namespace() %}{% for i in l %}{% set ns.x = i %}{% endfor %}{{ ns.x }}
{% set ns = namespace(x='') %}{% set ns.x %}block{% endset %}{{ ns.x }}
{% set ns = namespace() %}{% set ns.a, b = 1, 2 %}{{ ns.a }}{{ b }}
{% set x = 0 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% if t %}{% set x = 5 %}{% endif %}{{ x }}
{% set n = n + 1 %}{{ n }}
{% for i in l %}{{ n }}{% set n = i %}{{ n }};{% endfor %}{{ n }}
{% if no %}a{% elif t %}b{% else %}c{% endif %}
{% if no %}a{% elif no %}b{% else %}c{% endif %}
{% if no %}a{% elif zero %}b{% endif %}d
{% if undefined_thing %}a{% else %}b{% endif %}
{% if t and not no or undefined_thing.x %}a{% endif %}
{% for i in l %}{{ i }},{% endfor %}
{% for i in [] %}x{% else %}none{% endfor %}
{% for i in l %}x{% else %}none{% endfor %}
{% for i in undefined_thing %}x{% else %}none{% endfor %}
{% for c in 'añb' %}[{{ c }}]{% endfor %}
{% for k in d %}{{ k }} {% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }} {% endfor %}
{% for k, v in d | items %}{{ k }}={{ v }} {% endfor %}
{% for a, b in nested %}{{ a }}{{ b }};{% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for (a, b) in nested %}{{ a }}-{{ b }} {% endfor %}
{% for i in l if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% endfor %}
{% for i in l if i > 5 %}x{% else %}none{% endfor %}
{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }};{% endfor %}
{% for i in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}
{% for i in l %}{% for j in l %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }}{{ loop.depth0 }};{% endfor %}
{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for i in l %}{% if loop.first %}{% continue %}{% endif %}{{ i }}{% endfor %}
{% for i in l %}{% if loop.index == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in l %}{% break %}{% else %}E{% endfor %}
{% for i in l %}{% continue %}{% else %}E{% endfor %}
{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{% else %}E{% endfor %}
{% for i in l %}{% for j in l %}{% if j == 1 %}{% break %}{% endif %}{{ j }}{% endfor %}{{ i }}{% endfor %}
{% for i in l %}{{ i }}{% endfor %}{{ i is defined }}{{ loop is defined }}
{% for l in l %}{{ l }}{% endfor %}{{ l }}
{% for i in range(3) %}{{ i }}{% endfor %}
{% for i in l | sort %}{{ i }}{% endfor %}
{% for i in l[::-1] %}{{ i }}{{ loop.index0 }}{% endfor %}
{% for i in 1, 2, 3 %}{{ i }}{% endfor %}
{% for i in l + [9] %}{{ i }}{% endfor %}
{% for i in [1, 2] if t %}{{ i }}{% endfor %}
{% for x in l %}%n  {{ x }}%n{% endfor %}%n
{% for x in l -%}%n  {{ x }}%n{%- endfor %}%n
{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(a=5) }}{{ m(b=1, a=0) }}{{ m() }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}
{% macro m(a=[]) %}{{ a }}{% endmacro %}{{ m() }}{{ m('x') }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}
{% macro m(*a) %}{% endmacro %}
{% macro m() %}{{ n }}{% endmacro %}{% set n = 1 %}{{ m() }}
{% macro m(x) %}{% set n = x %}{{ n }}{% endmacro %}{{ m(1) }}{{ n }}
{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro m(x) %}{{ x }}{% endmacro %}{{ m('a') ~ m('b') | upper }}{{ m('  z ') | trim }}
{% macro m(x) %} {{ x }} {% endmacro %}{{- m(1) -}}
{% macro m(*args) %}{% endmacro %}
{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}in{{ n }}{% endcall %}
{% macro m(x) %}({{ caller(x) }}){% endmacro %}{% call(y) m(5) %}in{{ y }}{% endcall %}
{% macro m(x) %}{% if caller is defined %}c{% else %}n{% endif %}{% endmacro %}{{ m(1) }}
{% macro m(x) %}{{ x }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'x': 2}) }}
{% macro m(l) %}{% for l in l %}{{ l }}{% endfor %}{% endmacro %}{{ m([1, 2]) }}
{% filter upper %}abc{{ s }}{% endfilter %}
{% filter replace('a', 'b') | upper %}abc{% endfilter %}
{% with x = 1, y = 2 %}{{ x }}{{ y }}{% endwith %}{{ x is defined }}
{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }}
{% with n = n + 1 %}{{ n }}{% endwith %}{{ n }}
{% raw %}{{ x }} {% if %}{% endraw %}
a %n {%- raw -%} %n {{ x }} %n {%- endraw -%} %n b
  {% raw %}%n x%n  {% endraw %}%n y
{% raw %}%n x%n  {%+ endraw +%}%n y
{{ l%n  | sort%n  | join(%n    ', '%n  ) }}
{% if t%n   and n %}a{% endif %}
{%- set x = 'a' -%}%n{{ x }}
{{ x.y.z is defined }}
{{ s.upper }}{{ 1 if s.upper else 2 }}
{{ loop }}
{{ '' }}{{ none }}{{ undefined_thing }}|
{{ "a%nb" }}
a%r%nb%rc{{ "x%r%ny" }}
{% set a = [] %}{% for i in range(3) %}{% set a = a + [i] %}{% endfor %}{{ a }}
{% set ns = namespace(l=[]) %}{% for i in range(3) %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.l }}
{% set m = d %}{{ m.b }}{{ m['a'] }}
{{ raise_exception('stop: ' ~ n) }}
{% if n == 7 %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}
{{ undefined_thing.x }}
{{ undefined_thing['x'] }}
{{ undefined_thing() }}
{{ d.zzz.y }}
{{ s + 1 }}
{{ 1 + s }}
{{ s + none }}
{{ none + 1 }}
{{ l + (1,) }}
{{ [1] - [1] }}
{{ undefined_thing + 1 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1.0 / 0 }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ 1 in s }}
{{ 1 in 5 }}
{{ 'a' in none }}
{{ [] in d }}
{% for i in 5 %}{% endfor %}
{% for i in none %}{% endfor %}
{% for a, b in l %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{{ n.upper() }}
{{ none.upper() }}
{{ l.upper() }}
{{ s.split('') }}
{{ s.index('zzz') }}
{{ s.strip(5) }}
{{ s.startswith(5) }}
{{ s.startswith() }}
{{ s.startswith(['a']) }}
{{ ', '.join([1]) }}
{{ '{} {}'.format(1) }}
{{ '%d' % 'x' }}
{{ '%s %s' % 1 }}
{{ '%s' % (1, 2) }}
{{ s | int(1, 2, 3) }}
{{ s | upper(1) }}
{{ s | replace('a') }}
{{ none | length }}
{{ 5 | length }}
{{ l | map('string') | length }}
{{ 5 | list }}
{{ 5 | join }}
{{ [1, 'a'] | sort }}
{{ 5 | items }}
{{ 5 | dictsort }}
{{ undefined_thing | tojson }}
{{ range(3) | tojson }}
{{ {(1, 2): 3} | tojson }}
{{ l | map | list }}
{{ l | selectattr | list }}
{{ 'x' | abs }}
{{ undefined_thing | int }}
{{ -s }}
{{ +s }}
{{ 'ab' * 1.5 }}
{{ s[::0] }}
{{ n[1:] }}
{{ d[:1] }}
{{ d in d.keys() }}
{{ {(1, [2]): 3} }}
{{ l['a'].b }}
{% set x.y = 1 %}
{% set d.y = 1 %}
{% set x, y = 1 %}
{% set x, y = 1, 2, 3 %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=1) }}
{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a) %}{% endmacro %}{% call m(1) %}x{% endcall %}
{{ {[]: 1} }}
{{ d.get([]) }}
{{ range(0, 5, 0) }}
{{ range('a') }}
{{ range(1000000) }}
{{ 'a' is divisibleby 2 }}
{{ n() }}
{{ d.b() }}
{{ d.get() }}
{{ s.upper(1) }}
{{ 0 ** -1 }}
{{ namespace(1) }}
{{ dict(1) }}
"""


ESCAPES = {"%n": "\n", "%r": "\r", "%u00a0": "\u00a0", "%u3000": "\u3000", "%u2003": "\u2003"}


def snippets() -> list[str]:
    """All templates, as text."""
    out = ["{{ " + line + " }}" for line in EXPRESSIONS.strip("\n").split("\n")] + TEMPLATES.strip("\n").split("\n")
    for escape, text in ESCAPES.items():
        out = [line if escape == "%r" and "'%r'" in line else line.replace(escape, text) for line in out]
    return out
