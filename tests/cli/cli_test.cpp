// The program as its users run it: every subcommand, what it prints, how it ends.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace qwell {
namespace {

struct Outcome {
  int status = -1;
  std::string output;  // standard output and error
};

// Through the shell, in the source folder; arguments are quoted by the caller where needed.
Outcome qwell_run(const std::string& arguments, const std::string& before = {}) {
  const std::string command = "cd '" QWELL_SOURCE_DIR "' && " + before + " '" QWELL_PROGRAM "' --log-level off " + arguments + " 2>&1";
  Outcome run;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return run;
  char buffer[4096];
  std::size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0) run.output.append(buffer, count);
  const int status = ::pclose(pipe);
  run.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

json::object json_of(const Outcome& run) {
  EXPECT_EQ(run.status, 0) << run.output;
  const auto parsed = parse_json(run.output);
  EXPECT_TRUE(parsed) << run.output;
  return parsed ? parsed->as_object() : json::object();
}

std::string scratch(const std::string& name) { return (std::filesystem::path(::testing::TempDir()) / name).string(); }

TEST(Cli, HelpOfEveryCommand) {
  const Outcome all = qwell_run("--help");
  EXPECT_EQ(all.status, 0);
  for (const char* command : {"serve", "demo", "generate", "chat", "logits", "tokenize", "eval", "inspect", "bench steps"}) {
    EXPECT_NE(all.output.find(std::string(command).substr(0, 5)), std::string::npos) << command;
    const Outcome help = qwell_run(std::string(command) + " --help");
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_NE(help.output.find("Options"), std::string::npos) << help.output;
  }
  EXPECT_EQ(qwell_run("--version").output, "qwell " QWELL_VERSION "\n");
  EXPECT_EQ(qwell_run("").status, 2);
  EXPECT_EQ(qwell_run("nonsense").status, 2);
  EXPECT_EQ(qwell_run("generate --model models/demo").status, 2);  // no prompt
}

TEST(Cli, TokenizeBothWays) {
  const json::object encoded = json_of(qwell_run("tokenize --model models/demo --text 'Hello, <|im_end|> world' --json"));
  const json::array& ids = encoded.at("ids").as_array();
  EXPECT_EQ(ids.size(), encoded.at("pieces").as_array().size());
  std::string list;
  for (const json::value& id : ids) list += (list.empty() ? "" : ",") + std::to_string(id.as_int64());
  const json::object decoded = json_of(qwell_run("tokenize --model models/demo --decode " + list + " --json"));
  EXPECT_EQ(decoded.at("text").as_string(), "Hello, <|im_end|> world");
  // A folder with only the tokenizer will do.
  const std::string folder = scratch("only_tokenizer");
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(QWELL_SOURCE_DIR "/models/demo/tokenizer.json", folder + "/tokenizer.json",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(qwell_run("tokenize --model " + folder + " --text abc").status, 0);
}

TEST(Cli, GenerateAnswersTheSameInEveryTopology) {
  const json::object first = json_of(qwell_run("generate --model models/demo --chat 'What is 4817 + 2956?' --temperature 0 --json"));
  EXPECT_NE(std::string(first.at("text").as_string()).find("7773"), std::string::npos) << std::string(first.at("text").as_string());
  EXPECT_EQ(first.at("finish_reason").as_string(), "stop");
  EXPECT_GT(first.at("prompt_token_ids").as_array().size(), 5U);
  EXPECT_GT(first.at("timing").as_object().at("total_s").as_double(), 0.0);
  for (const char* topology : {"--prefill-ranks 4 --decode-ranks 2", "--no-disaggregation --decode-ranks 4",
                               "--prefill-ranks 2 --block-size 64 --prefill-block-size 16"}) {
    const json::object other =
        json_of(qwell_run(std::string("generate --model models/demo --chat 'What is 4817 + 2956?' --temperature 0 --json ") + topology));
    EXPECT_EQ(other.at("token_ids"), first.at("token_ids")) << topology;
  }
  // Seeded sampling repeats; without end it goes on to the limit.
  const std::string sampled =
      "generate --model models/demo --prompt 'Once upon a time' --temperature 1 --seed 7 --max-tokens 20 --ignore-eos --json";
  const json::object a = json_of(qwell_run(sampled));
  const json::object b = json_of(qwell_run(sampled + " --prefill-ranks 2"));
  EXPECT_EQ(a.at("token_ids"), b.at("token_ids"));
  EXPECT_EQ(a.at("token_ids").as_array().size(), 20U);
  EXPECT_EQ(a.at("finish_reason").as_string(), "length");
}

TEST(Cli, LogitsOfAFileAndOfIds) {
  const std::string fixture = "tests/data/fixtures/qwen3-moe-a";
  const std::string out = scratch("logits.safetensors");
  const Outcome run = qwell_run("logits --model " + fixture + " --input " + fixture + "/reference.safetensors --output " + out +
                                " --dtype float32 --prefill-ranks 4 --chunk 7 --hidden");
  ASSERT_EQ(run.status, 0) << run.output;
  const SafetensorsFile ours{std::filesystem::path(out)};
  const SafetensorsFile reference(std::filesystem::path(QWELL_SOURCE_DIR) / fixture / "reference.safetensors");
  for (const char* name : {"logits", "hidden.0", "hidden.1", "hidden.3"}) {
    const TensorView& a = ours.require(name);
    const TensorView& b = reference.require(name);
    ASSERT_EQ(a.shape, b.shape) << name;
    for (std::size_t i = 0; i < a.data.size(); i += sizeof(float)) {
      float x = 0;
      float y = 0;
      std::memcpy(&x, a.data.data() + i, sizeof(x));
      std::memcpy(&y, b.data.data() + i, sizeof(y));
      ASSERT_NEAR(x, y, 2e-3) << name << " element " << i / sizeof(float);
    }
  }
  EXPECT_EQ(qwell_run("logits --model " + fixture + " --token-ids 1,2,3 --output " + out + " --decode-ranks 2").status, 0);
  EXPECT_EQ(SafetensorsFile(std::filesystem::path(out)).require("logits").shape, (std::vector<std::int64_t>{1, 3, 512}));
}

TEST(Cli, InspectTellsThePlan) {
  const Outcome run = qwell_run("inspect models/demo --prefill-ranks 4 --decode-ranks 2 --kv-cache-memory 0.1");
  EXPECT_EQ(run.status, 0) << run.output;
  for (const char* word : {"weights", "decode group: pages", "prefill group: pages", "total", "mtp.", "rank 3"}) {
    EXPECT_NE(run.output.find(word), std::string::npos) << word << "\n" << run.output;
  }
}

TEST(Cli, EvalOnAFewRecords) {
  const json::object result = json_of(qwell_run("eval models/demo --limit 4 --json"));
  EXPECT_GE(result.at("tasks").as_object().at("add").as_object().at("accuracy").to_number<double>(), 0.5);
  EXPECT_GT(result.at("perplexity").as_object().at("chats").as_object().at("tokens").as_int64(), 0);
}

TEST(Cli, ChatReadsStandardInput) {
  const Outcome run = qwell_run("chat models/demo --temperature 0", "printf 'What is 2 + 3?\\n/new\\nWhat is 10 - 4?\\n' |");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_NE(run.output.find("5"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("6"), std::string::npos) << run.output;
}

TEST(Cli, DemoServesAndStops) {
  const Outcome run = qwell_run("demo");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_NE(run.output.find("7773"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("of keys and values crossed"), std::string::npos);
  EXPECT_NE(run.output.find("curl"), std::string::npos);
}

TEST(Cli, BenchWithRandomWeights) {
  const json::object result = json_of(qwell_run(
      "bench steps --random-weights tests/data/fixtures/qwen3-moe-a --prefill 32 --batch 1,3 --context 16 --steps 2 --repeats 1 --json"));
  EXPECT_EQ(result.at("steps").as_array().size(), 3U);
}

TEST(Cli, ErrorsNameWhatIsWrong) {
  const auto fails = [](const std::string& arguments, const char* words, const std::string& before = {}) {
    const Outcome run = qwell_run(arguments, before);
    EXPECT_EQ(run.status, 1) << arguments << "\n" << run.output;
    EXPECT_EQ(run.output.rfind("error: ", 0), 0U) << run.output;
    EXPECT_NE(run.output.find(words), std::string::npos) << arguments << "\n" << run.output;
  };
  fails("generate --model nowhere --prompt x", "nowhere/config.json");
  fails("generate --model models/demo --token-ids 1,x", "\"x\" is no token id");
  fails("generate --model models/demo --token-ids 9000", "token 9000");
  fails("generate --model models/demo --prompt x --prefill-ranks 3", "--prefill-ranks 3");
  fails("generate --model models/demo --prompt x --prefill-ranks 16", "at most 8");
  fails("generate --model tests/data/fixtures/qwen3-moe-a --prompt x", "no tokenizer.json");
  fails("generate --model tests/data/configs/qwen3-next-a --token-ids 1", "model.safetensors");
  fails("logits --model models/demo --token-ids 1,8192 --output /dev/null", "token id 8192");
  fails("tokenize --model models/demo --decode 1,,2", "\"\" is no token id");
  fails("generate --model models/demo --prompt x", "QWELL_CPU_ISA", "QWELL_CPU_ISA=sse2");
}

}  // namespace
}  // namespace qwell
