// Templates: what is refused when they are read, limits, and which characters of an output stem from a request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/json.h"
#include "text/jinja/template.h"

namespace qwell::jinja {
namespace {

using testing::HasSubstr;

Value context(std::string_view json_text) { return from_json(parse_json_file(json_text, "context"), false); }

Result<Text> render(std::string_view source, std::string_view json_text = "{}", const Limits& limits = {}) {
  return Template::parse(source, "t", limits).render(context(json_text));
}

std::string output(std::string_view source, std::string_view json_text = "{}") {
  const auto rendered = render(source, json_text);
  return rendered ? std::string(rendered->view()) : "failure: " + rendered.failure().message;
}

std::string refusal(std::string_view source, const Limits& limits = {}) {
  try {
    (void)Template::parse(source, "t.jinja", limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Untrusted stretches in angle quotes.
std::string marked(std::string_view source, std::string_view json_text) {
  const auto rendered = render(source, json_text);
  if (!rendered) return "failure: " + rendered.failure().message;
  std::string out;
  rendered->for_each_run(
      [&out](std::string_view bytes, bool trusted) { out += trusted ? std::string(bytes) : "«" + std::string(bytes) + "»"; });
  return out;
}

TEST(JinjaLoad, RefusesWhatIsUnknownWhereverItStands) {
  EXPECT_EQ(refusal("a\n{% if false %}\n{{ x | frobnicate }}{% endif %}"), "t.jinja:3: unsupported filter \"frobnicate\"");
  EXPECT_EQ(refusal("{% include 'x' %}"), "t.jinja:1: unsupported tag \"include\"");
  EXPECT_EQ(refusal("\n{% extends 'x' %}"), "t.jinja:2: unsupported tag \"extends\"");
  EXPECT_EQ(refusal("{{ x is frobnicated }}"), "t.jinja:1: unsupported test \"frobnicated\"");
  EXPECT_EQ(refusal("{{ lipsum(3) }}"), "t.jinja:1: unsupported function \"lipsum\"");
  EXPECT_EQ(refusal("{{ 'x'.encode() }}"), "t.jinja:1: unsupported method \"encode\"");
  EXPECT_EQ(refusal("{{ l.append(1) }}"), "t.jinja:1: unsupported method \"append\"");
  EXPECT_EQ(refusal("{{ l | map('frobnicate') }}"), "t.jinja:1: unsupported filter \"frobnicate\"");
  EXPECT_EQ(refusal("{{ l | selectattr('a', 'frobnicated') }}"), "t.jinja:1: unsupported test \"frobnicated\"");
  EXPECT_EQ(refusal("{% for x in l recursive %}{% endfor %}"), "t.jinja:1: unsupported recursive loop");
  EXPECT_EQ(refusal("{{ m() }}{% macro m() %}{% endmacro %}"), "");  // defined later: an error of the rendering
  EXPECT_EQ(refusal("{% set ns = namespace() %}{% set ns.f = range %}{{ ns.f(3) }}"), "");
}

TEST(JinjaLoad, RefusesBrokenSyntax) {
  const std::pair<const char*, const char*> cases[] = {
      {"{% if x %}", "\"endif\" is missing"},
      {"{% for x in y %}{% endif %}", "unsupported tag \"endif\""},
      {"{{ x", "\"}}\" is missing"},
      {"{% set x = %}", "expected an expression"},
      {"{# x", "missing end of comment"},
      {"{% raw %}", "missing end of raw"},
      {"{{ 'x }}", "a string has no end"},
      {"{{ (1 }}", "unexpected \"}\""},
      {"{{ 1) }}", "unexpected \")\""},
      {"{{ a b }}", "unexpected \"b\""},
      {"{{ $ }}", "unexpected character"},
      {"{{ '\\ud800' }}", "no character"},
      {"{{ '\\x4' }}", "broken escape"},
      {"{{ 012 }}", "begins with 0"},
      {"{{ 999999999999999999999999999999999999999999 }}", "too large"},
      {"{% break %}", "outside of a loop"},
      {"{% for x in y %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "outside of a loop"},
      {"{% set true = 1 %}", "can't assign"},
      {"{{ f(a=1, 2) }}", "out of order"},
      {"{% macro m(a=1, b) %}{% endmacro %}", "without a default"},
      {"{{ x is }}", "expected a name"},
      {"{{ x | }}", "expected a name"},
      {"{{ x. }}", "expected a name"},
      {"{{ }}", "expected an expression"},
      {"{% %}", "expected a name"},
      {"\xFF", "not valid UTF-8"},
  };
  for (const auto& [source, message] : cases) EXPECT_THAT(refusal(source), HasSubstr(message)) << source;
}

std::string repeated(std::string_view text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

TEST(JinjaLimits, OfTheTemplate) {
  Limits small;
  small.template_bytes_max = 100;
  EXPECT_THAT(refusal(std::string(101, 'x'), small), HasSubstr("101 bytes, the limit is 100"));
  for (const std::string& deep :
       {repeated("(", 100'000), "{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}",
        "{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}", "{{ " + repeated("not ", 5000) + "1 }}",
        "{{ " + repeated("-", 5000) + "1 }}", "{{ 1" + repeated(" + 1", 5000) + " }}", "{{ a" + repeated(".b", 5000) + " }}",
        "{{ a" + repeated("|trim", 5000) + " }}", "{{ 1" + repeated(" if 1 else 1", 5000) + " }}", "{{ a" + repeated("[0]", 5000) + " }}",
        repeated("{% if 1 %}", 5000) + repeated("{% endif %}", 5000),
        "{% set " + repeated("(", 5000) + "a" + repeated(")", 5000) + " = 1 %}"}) {
    if (deep.starts_with("((")) {
      EXPECT_EQ(output(deep), deep);  // only text
    } else {
      EXPECT_THAT(refusal(deep), HasSubstr("nested deeper than the limit of 150")) << deep.substr(0, 40);
    }
  }
  EXPECT_EQ(output("{{ " + repeated("(", 70) + "1" + repeated(")", 70) + " }}"), "1");
  EXPECT_EQ(output("{{ 'a'" + repeated(" ~ 'a'", 3000) + " }}"), std::string(3001, 'a'));
  EXPECT_EQ(output("{% if 0 %}" + repeated("{% elif 0 %}", 3000) + "{% else %}x{% endif %}"), "x");
}

void expect_limit(std::string_view source, std::string_view limit, std::string_view json_text = "{}", const Limits& limits = {}) {
  const auto rendered = render(source, json_text, limits);
  ASSERT_FALSE(rendered.ok()) << source;
  EXPECT_EQ(rendered.failure().code, FailureCode::kTooLarge) << source << rendered.failure().message;
  EXPECT_THAT(rendered.failure().message, HasSubstr(std::string(limit))) << source;
}

TEST(JinjaLimits, OfARendering) {
  Limits few;
  few.steps_max = 20'000;
  expect_limit("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}", "evaluation steps", "{}", few);
  Limits little;
  little.output_bytes_max = 1000;
  expect_limit("{% for a in range(200) %}123456{% endfor %}", "bytes of output", "{}", little);
  expect_limit("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion");
  expect_limit("{% macro f(x) %}{{ caller() }}{% call f(x) %}a{% endcall %}{% endmacro %}{% call f(1) %}b{% endcall %}", "recursion");
  expect_limit("{{ 'x' * 1000000000000 }}", "bytes in a string");
  expect_limit("{{ [1] * 1000000000000 }}", "items in a list");
  expect_limit("{{ 'x' | center(1000000000000) }}", "bytes in a string");
  expect_limit("{{ ('x' * 1000000).replace('', 'y' * 1000000) }}", "bytes in a string");
  expect_limit("{% set ns = namespace(l=[]) %}{% for i in range(200) %}{% set ns.l = [ns.l] %}{% endfor %}", "nested values");
  expect_limit("{% set ns = namespace(d=1) %}{% for i in range(200) %}{% set ns.d = {'x': ns.d} %}{% endfor %}", "nested values");
  expect_limit("{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "bytes in a string");
  expect_limit("{% set ns = namespace(l=['ab']) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
               "bytes in a string");
  // Values that share their parts have more of them than memory holds: comparing and hashing must not visit all.
  expect_limit(
      "{% set ns = namespace(a=(1,), b=(1,)) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% set ns.b = (ns.b, ns.b) %}"
      "{% endfor %}{{ ns.a == ns.b }}",
      "evaluation steps");
  expect_limit("{% set ns = namespace(a=(1,)) %}{% for i in range(60) %}{% set ns.a = (ns.a, ns.a) %}{% endfor %}{{ {ns.a: 1} }}",
               "evaluation steps");
  expect_limit("{{ ('x' * 60000000) | upper }}{{ ('x' * 60000000) | upper }}", "evaluation steps");
}

TEST(JinjaLimits, ANamespaceMayHoldItself) {
  EXPECT_EQ(output("{% set ns = namespace(x=1) %}{% set ns.me = ns %}{{ ns.me.me.x }}"), "1");
  expect_limit("{% set ns = namespace(x=1) %}{% set ns.me = ns %}{{ ns }}", "nested values");
}

TEST(JinjaLimits, AMacroMayLeaveItsBlock) {
  EXPECT_EQ(
      output(
          "{% set ns = namespace() %}{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{% set ns.m = m %}{% endfor %}{{ ns.m() }}"),
      "2");
  EXPECT_EQ(output("{% set ns = namespace() %}{% for i in [1, 2] %}{% set ns.l = loop %}{% endfor %}{{ ns.l.index }}"), "2");
}

TEST(JinjaErrors, NameTheLineOrAreTheTemplatesOwn) {
  const auto undefined = render("a\n{{ 1 }}\n{{ x.y }}");
  EXPECT_EQ(undefined.failure().message, "chat template, line 3: 'x' is undefined");
  EXPECT_EQ(render("{{ {}.x.y }}").failure().message, "chat template, line 1: 'dict object' has no attribute 'x'");
  EXPECT_EQ(render("{{ 'a' + 1 }}").failure().message, "chat template, line 1: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(render("\n\n{{ raise_exception('Only user and assistant roles') }}").failure().message, "Only user and assistant roles");
  EXPECT_EQ(render("{{ 170141183460469231731687303715884105727 + 1 }}").failure().message,
            "chat template, line 1: integer result is too large");
}

TEST(JinjaValues, NumbersOfJsonKeepTheirKind) {
  EXPECT_EQ(output("{{ a }} {{ b }} {{ c }} {{ d }}", R"({"a": 1, "b": 1.0, "c": 18446744073709551615, "d": -9223372036854775808})"),
            "1 1.0 18446744073709551615 -9223372036854775808");
  EXPECT_EQ(output("{{ x | tojson }}", R"({"x": {"b": 1, "a": [1.0, 1e100, -0.0, true, null, "é"]}})"),
            R"({"b": 1, "a": [1.0, 1e+100, -0.0, true, null, "é"]})");
}

TEST(JinjaValues, LargeDictsKeepOrderAndFindKeys) {
  json::object object;
  for (int i = 0; i < 1000; ++i) object[fmt::format("key{}", (i * 37) % 1000)] = i;
  const auto rendered =
      Template::parse("{% for k in d %}{{ d[k] }},{% endfor %}{{ d.key37 }} {{ d.zzz is defined }} {{ 'key5' in d }}", "t")
          .render(from_json(json::object{{"d", object}}, false));
  std::string wanted;
  for (int i = 0; i < 1000; ++i) wanted += fmt::format("{},", i);
  EXPECT_EQ(rendered->view(), wanted + "1 False True");
  EXPECT_EQ(output("{% set d = dict(range(20) | map('string') | map('list') | map('first') | batch(2)) %}{{ d['8'] }}{{ d | length }}"),
            "96");
}

TEST(JinjaValues, IllFormedTextIsRepaired) {
  const auto rendered = Template::parse("{{ x }}|{{ x | length }}", "t").render(from_json(json::object{{"x", "a\xFF\xC3"}}, false));
  EXPECT_EQ(rendered->view(), "a\xEF\xBF\xBD\xEF\xBF\xBD|3");
}

TEST(JinjaTrust, FollowsCharacters) {
  const char* const json_text = R"({"s": " ab cd ", "l": ["x", "y"], "d": {"k": "v\"q"}, "n": 5, "u": "日本x"})";
  const std::pair<const char*, const char*> cases[] = {
      {"<{{ s }}>", "<« ab cd »>"},
      {"{{ '<' + s + '>' }}", "<« ab cd »>"},
      {"{{ '<' ~ n ~ s ~ true }}", "<5« ab cd »True"},
      {"{{ s | trim }}|{{ s.strip() ~ '|' }}", "«ab cd»|«ab cd»|"},
      {"{{ ('--' ~ s ~ '--').strip('- ') }}", "«ab cd»"},
      {"{{ ('1' ~ s ~ '2')[2:-3] }}", "«ab c»"},
      {"{{ ('1' ~ s ~ '2')[::-1] }}", "2« dc ba »1"},
      {"{{ ('1' ~ s ~ '2')[1] ~ ('1' ~ s ~ '2')[0] }}", "« »1"},
      {"{{ ('t ' ~ s ~ ' t').split() | join('+') }}", "t+«ab»+«cd»+t"},
      {"{{ ('a-' ~ s).replace('a', '[A]') }}", "[A]-« »[A]«b cd »"},
      {"{{ 'a-b'.replace('-', s) }}", "a« ab cd »b"},
      {"{{ (s ~ 'ef') | upper }}", "« AB CD »EF"},
      {"{{ (s ~ 'ef') | title }}", "« Ab Cd »Ef"},
      {"{{ l | join(', ') }}", "«x», «y»"},
      {"{{ ', '.join(l) }}", "«x», «y»"},
      {"{{ l }}", "['«x»', '«y»']"},
      {"{{ d | tojson }}", "{\"«k»\": \"«v\\\"q»\"}"},
      {"{{ d | tojson(indent=1) }}", "{\n \"«k»\": \"«v\\\"q»\"\n}"},
      {"{% for c in u %}{{ c }}.{% endfor %}", "«日».«本».«x»."},
      {"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "«k»=«v\"q»"},
      {"{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(s) | trim }}", "[« ab cd »]"},
      {"{% set x %}<{{ s }}>{% endset %}{{ x }}", "<« ab cd »>"},
      {"{% filter upper %}a{{ l[0] }}{% endfilter %}", "A«X»"},
      {"{{ '%s:%5s' % (l[0], l[1]) }}", "«x»:    «y»"},
      {"{{ '{}-{}'.format(l[0], 1) }}", "«x»-1"},
      {"{{ (l[0] ~ '\n' ~ l[1]) | indent(2) }}", "«x»\n  «y»"},
      {"{{ ('<' ~ l[0]) | e }}", "&lt;«x»"},
      {"{{ l | first ~ l | last }}{{ l | sort | join }}", "«xyxy»"},
      {"{{ l[0] if l[0] == 'x' }}{{ 'y' if l[1] == 'y' }}", "«x»y"},
      {"{{ s | string | safe | default('x') }}", "« ab cd »"},
  };
  for (const auto& [source, wanted] : cases) EXPECT_EQ(marked(source, json_text), wanted) << source;
}

TEST(JinjaTrust, TemplatesAndTheirRangesAreTrusted) {
  const auto rendered = Template::parse("a{{ s }}", "t").render(from_json(json::object{{"s", "b"}}, true));
  EXPECT_TRUE(rendered->trusted_at(0) && rendered->trusted_at(1));
  EXPECT_EQ(marked("{{ range(3) | list }}{{ none }}{{ 'ä'.upper() }}", "{}"), "[0, 1, 2]NoneÄ");
}

TEST(Jinja, TellsTheTime) {
  const auto t = Template::parse("{{ strftime_now('%Y') }}{{ strftime_now('') }}", "t");
  const auto rendered = t.render(context("{}"), 86400 * 366);
  EXPECT_EQ(rendered->view(), "1971");
  EXPECT_FALSE(Template::parse("{{ strftime_now('x' * 300) }}", "t").render(context("{}")).ok());
}

TEST(Jinja, GenerationBlocksAreTheirContent) { EXPECT_EQ(output("a{% generation %}b{% set x = 1 %}{% endgeneration %}c"), "abc"); }

TEST(Jinja, OneTemplateServesManyThreads) {
  const auto t = Template::parse("{% macro m(x) %}{{ x | upper }}{% endmacro %}{% for i in l %}{{ m(i ~ s) }}{% endfor %}", "t");
  std::vector<std::string> results(4);
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < results.size(); ++k) {
    threads.emplace_back([&t, &results, k] {
      const Value variables = from_json(json::object{{"s", std::string(1, static_cast<char>('a' + k))}, {"l", json::array{1, 2}}}, false);
      for (int i = 0; i < 200; ++i) results[k] = std::string(t.render(variables)->view());
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(results, (std::vector<std::string>{"1A2A", "1B2B", "1C2C", "1D2D"}));
}

}  // namespace
}  // namespace qwell::jinja
