// Finding, asking and running clang. Source goes in through stdin and the object comes out of
// stdout, both files in memory (spawn.h): no temporary file exists.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/clang_compiler.h"

#include <sys/stat.h>

#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/backend/cpu/spawn.h"
#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/hash.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"

namespace tenon::cpu {
namespace {

constexpr int kNewestClangVersion = 30;

/// Names the file at `path` as it is now; a replaced compiler gets another key.
std::optional<std::string> version_key(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  Hasher hasher;
  hasher.add("clang --version").add(path).add(status.st_size).add(status.st_ino);
  hasher.add(status.st_mtim.tv_sec).add(status.st_mtim.tv_nsec);
  return to_string(hasher.hash());
}

/// `clang --version`, first line.
std::string ask_version(const std::string& path) {
  const std::vector<std::string> argv = {path, "--version"};
  const SpawnResult result = run_tool(argv, "");
  TENON_CHECK(result.exit_code <= 0, ErrorCode::kNotFound, "asking '", path,
              "' for its version failed (exit ", result.exit_code, "): ", trim(result.errors));
  return std::string(trim(split(result.output, '\n').front()));
}

std::string version_text(const std::string& path, CompileCache* cache) {
  struct Known {
    std::mutex mutex;
    std::map<std::string, std::string> versions;
  };
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* const known =
      new Known;  // leaked on purpose: compiles may run in static destructors
  const std::optional<std::string> key = version_key(path);
  if (!key) return ask_version(path);
  {
    const std::lock_guard lock(known->mutex);
    if (const auto it = known->versions.find(*key); it != known->versions.end()) return it->second;
  }
  std::string version;
  if (cache != nullptr) {
    if (const auto bytes = cache->get(*key)) {
      version.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    }
  }
  if (version.empty()) {
    version = ask_version(path);
    if (cache != nullptr) cache->put(*key, std::as_bytes(std::span(version)));
  }
  const std::lock_guard lock(known->mutex);
  return known->versions[*key] = version;
}

/// 22 from "Debian clang version 22.1.8 (1~deb12u1)"; 0 if there is no such number.
int major_version(std::string_view version) {
  constexpr std::string_view kMark = "clang version ";
  const size_t mark = version.find(kMark);
  if (mark == std::string_view::npos) return 0;
  const std::string_view number = version.substr(mark + kMark.size());
  return static_cast<int>(parse_int(number.substr(0, number.find('.'))).value_or(0));
}

ClangTool describe_clang(std::string path, CompileCache* cache) {
  ClangTool clang;
  clang.version = version_text(path, cache);
  clang.major_version = major_version(clang.version);
  clang.path = std::move(path);
  return clang;
}

std::string first_lines(std::string_view text) {
  constexpr size_t kMaxLines = 5;
  std::vector<std::string_view> lines = split(trim(text), '\n');
  if (lines.size() > kMaxLines) lines.resize(kMaxLines);
  return join(lines, "\n");
}

}  // namespace

ClangTool find_clang(CompileCache* cache) {
  const std::string setting = setting_string(Setting::kClang);
  if (!setting.empty()) {
    std::optional<std::string> path = find_program(setting);
    TENON_CHECK(path, ErrorCode::kNotFound, "finding clang: TENON_CLANG is '", setting,
                "', which is no program. Give the path of clang ", kMinClangVersion, " or newer");
    ClangTool clang = describe_clang(*std::move(path), cache);
    TENON_CHECK(clang.major_version >= kMinClangVersion, ErrorCode::kUnsupported,
                "finding clang: TENON_CLANG is '", setting, "', whose version is '", clang.version,
                "'; expected clang ", kMinClangVersion, " or newer");
    return clang;
  }
  for (int version = kMinClangVersion; version <= kNewestClangVersion; ++version) {
    if (std::optional<std::string> path = find_program(concat("clang-", version))) {
      return describe_clang(*std::move(path), cache);
    }
  }
  std::string seen;
  if (std::optional<std::string> path = find_program("clang")) {
    ClangTool clang = describe_clang(*std::move(path), cache);
    if (clang.major_version >= kMinClangVersion) return clang;
    seen = concat("; '", clang.path, "' is too old (", clang.version, ")");
  }
  fail(ErrorCode::kNotFound, "finding clang: no clang ", kMinClangVersion, " or newer on PATH",
       seen, ". Install it (apt-get install clang-22) or set TENON_CLANG");
}

std::vector<std::string> clang_flags(const CpuFeatureSet& features, const ClangOptions& options) {
  std::vector<std::string> flags = {"--no-default-config", "--target=x86_64-pc-linux-gnu",
                                    "-march=x86-64", "-std=c11", "-O1"};
  for (const std::string_view name : features.names())
    flags.push_back(concat("-m", name));
  for (const char* flag :
       {"-mprefer-vector-width=512", "-ffp-contract=off", "-fno-math-errno",
        "-fexcess-precision=16", "-fPIC", "-fno-builtin", "-fno-jump-tables",
        "-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-ffreestanding"}) {
    flags.emplace_back(flag);
  }
  // Kernels are instrumented like the process they run in. Everything that would need writable
  // data or a constructor in the object is switched off: the loader takes neither.
  if (kAddressSanitizer) {
    for (const char* flag :
         {"-fsanitize=address", "-fno-omit-frame-pointer", "-mllvm", "-asan-globals=0", "-mllvm",
          "-asan-constructor-kind=none", "-mllvm", "-asan-stack=0"}) {
      flags.emplace_back(flag);
    }
  }
  if (kThreadSanitizer) flags.emplace_back("-fsanitize=thread");
  flags.insert(flags.end(), options.extra_flags.begin(), options.extra_flags.end());
  return flags;
}

std::string clang_fingerprint(const ClangTool& clang, const CpuFeatureSet& features,
                              const ClangOptions& options) {
  return concat(clang.path, "\n", clang.version, "\n", join(clang_flags(features, options), " "));
}

std::vector<std::byte> compile_c(const ClangTool& clang, std::string_view source,
                                 const CpuFeatureSet& features, const ClangOptions& options) {
  std::vector<std::string> argv = {clang.path};
  for (std::string& flag : clang_flags(features, options))
    argv.push_back(std::move(flag));
  for (const char* flag : {"-c", "-x", "c", "-", "-o", "-"})
    argv.emplace_back(flag);
  const SpawnResult result = run_tool(argv, source);
  // Where the exit code cannot be known (SpawnResult), an object is the sign of success; a part
  // of one is refused by the loader.
  const bool is_done = result.exit_code == 0 ||
                       (result.exit_code == SpawnResult::kUnknownExit && !result.output.empty());
  TENON_CHECK(is_done && !result.output.empty(), ErrorCode::kCompileFailed, "compiling ",
              options.name, " with '", clang.path, "' failed (exit ", result.exit_code,
              "): ", first_lines(result.errors));
  std::vector<std::byte> object(result.output.size());
  std::memcpy(object.data(), result.output.data(), object.size());
  return object;
}

}  // namespace tenon::cpu
