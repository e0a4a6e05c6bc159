// The interpreter against Jinja2; the data is made by tools/golden/template_golden.py.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "text/chat_template.h"
#include "text/jinja/template.h"

namespace qwell {
namespace {

json::value data(const std::string& name) {
  const auto path = std::filesystem::path(QWELL_TEST_DATA) / "template" / name;
  return parse_json_file(read_file(path), path.string(), {.depth_max = 200});
}

std::string text_of(const json::value& value) { return std::string(value.as_string()); }

std::string hash_of(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return fmt::format("{:016x}", hash);
}

// Broken templates fail when they are parsed here, and when they are rendered there.
Result<jinja::Text> render(const std::string& source, const json::value& context, bool trusted) {
  try {
    return jinja::Template::parse(source, "t").render(jinja::from_json(context, trusted));
  } catch (const Error& error) {
    return Failure{FailureCode::kInvalidArgument, error.what(), {}};
  }
}

TEST(JinjaGolden, SnippetsEqualJinja2) {
  const json::value golden = data("snippets.json");
  ASSERT_GE(golden.at("cases").as_array().size(), 700U);
  int failing = 0;
  for (const json::value& item : golden.at("cases").as_array()) {
    const std::string source = text_of(item.at("template"));
    const auto rendered = render(source, golden.at("context"), false);
    if (const auto* const output = item.as_object().if_contains("output")) {
      EXPECT_TRUE(rendered.ok()) << source << "\n" << (rendered ? "" : rendered.failure().message);
      if (rendered) {
        EXPECT_EQ(rendered->view(), text_of(*output)) << source;
      }
      continue;
    }
    ++failing;
    EXPECT_FALSE(rendered.ok()) << source << "\n" << (rendered ? rendered->view() : "");
    if (rendered) continue;
    EXPECT_EQ(rendered.failure().code, FailureCode::kInvalidArgument) << source;
    const std::string message = text_of(item.at("error"));  // of raise_exception
    if (!message.empty()) {
      EXPECT_EQ(rendered.failure().message, message) << source;
    }
  }
  EXPECT_GE(failing, 80);
}

// What is trusted never changes what is printed.
TEST(JinjaGolden, TrustDoesNotShow) {
  const json::value golden = data("snippets.json");
  for (const json::value& item : golden.at("cases").as_array()) {
    const auto a = render(text_of(item.at("template")), golden.at("context"), false);
    const auto b = render(text_of(item.at("template")), golden.at("context"), true);
    ASSERT_EQ(a.ok(), b.ok());
    if (!a) continue;
    EXPECT_EQ(a->view(), b->view());
    b->for_each_run([](std::string_view, bool trusted) { EXPECT_TRUE(trusted); });
  }
}

class RealTemplates : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* const folder = std::getenv("QWELL_REAL_FIXTURES");
    if (folder == nullptr) GTEST_SKIP() << "QWELL_REAL_FIXTURES is not set";
    source_ = read_file(std::filesystem::path(folder) / (std::string(GetParam()) + ".jinja"));
  }
  std::string source_;
};

json::object variables_of(const json::object& chat) {
  json::object variables;
  if (const auto* const kwargs = chat.if_contains("kwargs")) variables = kwargs->as_object();
  variables["messages"] = chat.at("messages");
  variables["tools"] = chat.contains("tools") ? chat.at("tools") : json::value();
  variables["documents"] = nullptr;
  variables["add_generation_prompt"] = chat.at("add_generation_prompt");
  return variables;
}

TEST_P(RealTemplates, ChatsEqualJinja2) {
  const auto interpreter = jinja::Template::parse(source_, GetParam());
  const auto chat_template = ChatTemplate::from_text(source_, nullptr, GetParam());
  const json::value chats = data("chats.json");
  ASSERT_GE(chats.as_array().size(), 1000U);
  for (std::size_t i = 0; i < chats.as_array().size(); ++i) {
    const json::object& chat = chats.as_array()[i].as_object();
    const json::array& wanted = chat.at(GetParam()).as_array();
    const auto raw = interpreter.render(jinja::from_json(variables_of(chat), false));
    EXPECT_EQ(raw ? hash_of(raw->view()) : "error", text_of(wanted[0])) << i << (raw ? "" : raw.failure().message);
    ChatRenderOptions options;
    options.add_generation_prompt = chat.at("add_generation_prompt").as_bool();
    if (chat.contains("tools")) options.tools = chat.at("tools");
    if (chat.contains("kwargs")) options.kwargs = chat.at("kwargs").as_object();
    const auto rendered = chat_template.render(chat.at("messages").as_array(), options);
    const std::string text = rendered ? join_segments(*rendered) : "error";
    const bool whole = wanted[1].as_string().size() != 16 && wanted[1].as_string() != "error";
    EXPECT_EQ(whole || !rendered ? text : hash_of(text), text_of(wanted[1])) << i << (rendered ? "" : rendered.failure().message);
  }
}

INSTANTIATE_TEST_SUITE_P(JinjaGolden, RealTemplates, testing::Values("qwen3", "qwen3-coder", "qwen3.5"));

}  // namespace
}  // namespace qwell
