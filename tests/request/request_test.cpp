#include "request/request.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace qwell {
namespace {

GenerationRequest valid_request() {
  GenerationRequest r;
  r.prompt = {0, 1, 99};
  r.max_tokens = 4;
  return r;
}

TEST(Request, AcceptsTheBorders) {
  GenerationRequest r = valid_request();
  EXPECT_TRUE(validate(r, 100, 16));
  r.sampling = {.temperature = 0, .top_p = 1, .top_k = 1, .min_p = 1, .presence_penalty = -2, .frequency_penalty = 2};
  r.sampling.logit_bias = {{99, -100.0F}, {0, 100.0F}};
  r.min_tokens = 4;
  EXPECT_TRUE(validate(r, 100, 16));
  r.prompt.assign(15, 1);
  EXPECT_TRUE(validate(r, 100, 16));  // and one token to generate
  r.prompt.assign(16, 1);
  r.max_tokens = 0;
  r.min_tokens = 0;
  EXPECT_TRUE(validate(r, 100, 16));
}

TEST(Request, NamesTheFieldAtFault) {
  const std::vector<std::pair<const char*, std::function<void(GenerationRequest&)>>> cases = {
      {"prompt", [](auto& r) { r.prompt.clear(); }},
      {"prompt", [](auto& r) { r.prompt = {100}; }},
      {"prompt", [](auto& r) { r.prompt = {-1}; }},
      {"prompt", [](auto& r) { r.prompt.assign(16, 1); }},
      {"max_tokens", [](auto& r) { r.max_tokens = -1; }},
      {"min_tokens", [](auto& r) { r.min_tokens = 5; }},
      {"min_tokens", [](auto& r) { r.min_tokens = -1; }},
      {"temperature", [](auto& r) { r.sampling.temperature = -0.1F; }},
      {"temperature", [](auto& r) { r.sampling.temperature = std::nanf(""); }},
      {"top_p", [](auto& r) { r.sampling.top_p = 0; }},
      {"top_p", [](auto& r) { r.sampling.top_p = 1.01F; }},
      {"top_k", [](auto& r) { r.sampling.top_k = -2; }},
      {"min_p", [](auto& r) { r.sampling.min_p = 1.5F; }},
      {"presence_penalty", [](auto& r) { r.sampling.presence_penalty = 2.1F; }},
      {"frequency_penalty", [](auto& r) { r.sampling.frequency_penalty = -2.1F; }},
      {"repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = 0; }},
      {"repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = INFINITY; }},
      {"logit_bias",
       [](auto& r) {
         r.sampling.logit_bias = {{100, 1.0F}};
       }},
      {"logit_bias",
       [](auto& r) {
         r.sampling.logit_bias = {{1, 101.0F}};
       }},
  };
  for (const auto& [param, change] : cases) {
    GenerationRequest r = valid_request();
    change(r);
    const auto result = validate(r, 100, 16);
    ASSERT_FALSE(result) << param;
    EXPECT_EQ(result.failure().param, param);
    EXPECT_EQ(result.failure().code, FailureCode::kInvalidArgument);
    EXPECT_FALSE(result.failure().message.empty());
  }
}

}  // namespace
}  // namespace qwell
