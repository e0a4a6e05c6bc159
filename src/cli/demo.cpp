#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "cli/api_client.h"
#include "cli/commands.h"
#include "device/memory.h"

namespace qwell {
namespace {

struct Flags {
  std::string model = "models/demo";
  int prefill_ranks = 4;
  int decode_ranks = 2;
};

// A port that was free a moment ago.
int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (fd >= 0) ::close(fd);
  if (!bound) fail("no free port: {}", std::strerror(errno));
  return ntohs(address.sin_port);
}

// `qwell serve` as a child, ended with this object.
class ServeProcess {
 public:
  explicit ServeProcess(const std::vector<std::string>& arguments) {
    std::vector<char*> argv;
    std::vector<std::string> words = {"qwell"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    child_ = ::fork();
    if (child_ < 0) fail("fork: {}", std::strerror(errno));
    if (child_ == 0) {
      ::execv("/proc/self/exe", argv.data());
      ::_exit(127);
    }
  }
  ~ServeProcess() {
    if (child_ > 0) ::kill(child_, SIGKILL);
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
  }
  ServeProcess(const ServeProcess&) = delete;
  ServeProcess& operator=(const ServeProcess&) = delete;

  bool running() {
    int status = 0;
    if (child_ > 0 && ::waitpid(child_, &status, WNOHANG) == child_) child_ = 0;
    return child_ > 0;
  }
  // Asks it to end and waits; its exit status, or -1.
  int stop() {
    if (child_ <= 0) return -1;
    ::kill(child_, SIGTERM);
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t child_ = 0;
};

void wait_until_ready(ServeProcess& serve, const ApiClient& client) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(120));
  while (client.get_status("/health/ready") != 200) {
    if (!serve.running()) fail("qwell serve ended before it was ready; what it said is above");
    if (deadline.passed()) fail("qwell serve was not ready within 120 s");
    ::poll(nullptr, 0, 50);
  }
}

struct Totals {
  int completion_tokens = 0;
  double queued = 0, prefill = 0, transfer = 0, decode = 0, total = 0;
  std::int64_t moved = 0;
};

void ask(const ApiClient& client, std::vector<ChatMessage>& messages, const std::string& question, Totals& totals) {
  messages.push_back({"user", question});
  fmt::print("\n> {}\n", question);
  std::fflush(stdout);
  auto reply = client.chat(messages, 200, "\"temperature\":0", [](const std::string& piece) {
    fmt::print("{}", piece);
    std::fflush(stdout);
  });
  if (!reply) fail("{}", reply.failure().message);
  const int later = reply->completion_tokens - 1;
  const double speed =
      later > 0 && reply->total_seconds > reply->first_token_seconds ? later / (reply->total_seconds - reply->first_token_seconds) : 0;
  fmt::print("\n  [{} prompt tokens ({} cached), {} answered, first after {:.0f} ms, then {:.0f} tokens/s, {} of KV crossed]\n",
             reply->prompt_tokens, reply->cached_tokens, reply->completion_tokens, reply->first_token_seconds * 1e3, speed,
             bytes_text(static_cast<double>(reply->kv_bytes_moved)));
  messages.push_back({"assistant", reply->text});
  totals.completion_tokens += reply->completion_tokens;
  totals.queued += reply->queued;
  totals.prefill += reply->prefill;
  totals.transfer += reply->transfer;
  totals.decode += reply->decode;
  totals.total += reply->total_seconds;
  totals.moved += reply->kv_bytes_moved;
}

int run(const Flags& flags) {
  const int port = free_port();
  const std::string url = fmt::format("http://127.0.0.1:{}", port);
  fmt::print("Starting: qwell serve {} --prefill-ranks {} --decode-ranks {} --port {}\n", flags.model, flags.prefill_ranks,
             flags.decode_ranks, port);
  std::fflush(stdout);
  ServeProcess serve({"--log-level", "warning", "serve", flags.model, "--served-model-name", "demo", "--prefill-ranks",
                      std::to_string(flags.prefill_ranks), "--decode-ranks", std::to_string(flags.decode_ranks), "--port",
                      std::to_string(port), "--kv-cache-memory", "0.25"});
  const ApiClient client(url);
  wait_until_ready(serve, client);
  fmt::print(
      "Ready: a prefill group of {} ranks (TP = EP = {}) and a decode group of {} ranks (DP = EP = {}), all on this machine's CPU.\n",
      flags.prefill_ranks, flags.prefill_ranks, flags.decode_ranks, flags.decode_ranks);

  Totals totals;
  for (const char* question : {"Who are you?", "What is 4817 + 2956?", "What does the word ocean mean?",
                               "Sort these numbers: 42, 7, 93, 15", "Tell me a short story."}) {
    std::vector<ChatMessage> messages;
    ask(client, messages, question, totals);
    if (std::string(question).find("4817") != std::string::npos) ask(client, messages, "What is 12 times 11?", totals);
  }

  fmt::print("\nAll together: {} tokens answered, {} of keys and values crossed from the prefill group to the decode group.\n",
             totals.completion_tokens, bytes_text(static_cast<double>(totals.moved)));
  fmt::print(
      "Where the time went: waiting {:.0f} ms, prefill with transfer {:.0f} ms, decode {:.0f} ms, the rest (HTTP, text) {:.0f} ms.\n",
      totals.queued * 1e3, (totals.prefill + totals.transfer) * 1e3, totals.decode * 1e3,
      std::max(0.0, totals.total - totals.queued - totals.prefill - totals.transfer - totals.decode) * 1e3);
  if (const int status = serve.stop(); status != 0) fail("qwell serve ended with status {}", status);

  fmt::print(R"(
The server has stopped. To go on:
  build/release/qwell serve {0} --served-model-name demo --prefill-ranks {1} --decode-ranks {2} --port 8000
  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \
       -d '{{"model": "demo", "messages": [{{"role": "user", "content": "What is 7 times 8?"}}]}}'
  any OpenAI client: base_url="http://127.0.0.1:8000/v1", api_key="none", model="demo"
  build/release/qwell chat {0}
)",
             flags.model, flags.prefill_ranks, flags.decode_ranks);
  return 0;
}

}  // namespace

void add_demo(CLI::App& app, Command& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("demo", "Serve the bundled model, ask it a few questions, and stop");
  command->add_option("--model", flags->model, "checkpoint folder")->capture_default_str();
  command->add_option("--prefill-ranks", flags->prefill_ranks, "ranks of the prefill group")->capture_default_str();
  command->add_option("--decode-ranks", flags->decode_ranks, "ranks of the decode group")->capture_default_str();
  command->callback([flags, &chosen] { chosen = [flags] { return run(*flags); }; });
}

}  // namespace qwell
