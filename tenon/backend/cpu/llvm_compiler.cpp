// Opening libLLVM and driving it: parse, a light pipeline (the text has explicit vectors, so
// nothing is left to unroll or vectorise), code generation. SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/llvm_compiler.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "tenon/backend/cpu/llvm_api.h"
#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"

namespace tenon::cpu {
namespace {

constexpr const char* kTriple = "x86_64-pc-linux-gnu";
constexpr const char* kSoname = "libLLVM.so.22.1";
constexpr const char* kFolders[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/llvm-22/lib", "/usr/lib64",
    "/usr/lib64/llvm22/lib",     "/usr/local/lib",       "/usr/lib"};
constexpr const char* kInstall = "Install it (apt-get install libllvm22), or set TENON_LLVM";

/// Kernels are instrumented like the process they run in, after all else.
constexpr std::string_view kPasses =
    "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm))";
constexpr std::string_view kSanitizerPasses =
    kAddressSanitizer  ? ",asan"
    : kThreadSanitizer ? ",function(scalarize-masked-mem-intrin,tsan),tsan-module"
                       : "";
// What would need writable data or a constructor in the object: the loader takes neither.
constexpr std::array kSanitizerOptions = {"tenon", "-asan-globals=0", "-asan-constructor-kind=none",
                                          "-asan-stack=0"};

std::optional<LlvmTool> describe_library(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return LlvmTool{
      .path = path,
      .identity = concat(status.st_size, ' ', status.st_mtim.tv_sec, '.', status.st_mtim.tv_nsec)};
}

template <typename Function>
void find_function(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
}

/// Opens the library; on failure `problem` says why.
std::unique_ptr<const LlvmApi> open_library(const std::string& path, std::string& problem) {
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    problem = dlerror();
    return nullptr;
  }
  auto api = std::make_unique<LlvmApi>();
#define TENON_LLVM_FUNCTION(member, symbol, signature) \
  find_function(library, symbol, api->member);         \
  if (api->member == nullptr) problem = concat("it has no " symbol);
  TENON_LLVM_FUNCTIONS(TENON_LLVM_FUNCTION)
#undef TENON_LLVM_FUNCTION
  if (!problem.empty()) return nullptr;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned patch = 0;
  api->get_version(&major, &minor, &patch);
  api->version = concat(major, '.', minor, '.', patch);
  if (major != kLlvmVersion) {
    problem = concat("it is version ", api->version, ", expected ", kLlvmVersion);
    return nullptr;
  }
  api->initialize_target_info();
  api->initialize_target();
  api->initialize_target_mc();
  api->initialize_asm_printer();
  if (kAddressSanitizer) {
    api->parse_options(static_cast<int>(kSanitizerOptions.size()), kSanitizerOptions.data(), "");
  }
  return api;
}

/// Once per file and process.
const LlvmApi& api_of(const LlvmTool& llvm) {
  struct Opened {
    std::mutex mutex;
    std::map<std::string, std::unique_ptr<const LlvmApi>> by_path;
  };
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* const opened = new Opened;  // leaked on purpose, as the library is
  const std::lock_guard lock(opened->mutex);
  std::unique_ptr<const LlvmApi>& api = opened->by_path[llvm.path];
  if (api != nullptr) return *api;
  std::string problem;
  api = open_library(llvm.path, problem);
  TENON_CHECK(api != nullptr, ErrorCode::kUnsupported, "opening '", llvm.path,
              "' as libLLVM failed: ", problem, ". ", kInstall);
  return *api;
}

std::string feature_text(const CpuFeatureSet& features) {
  std::string text;
  for (const std::string_view name : features.names())
    append(text, text.empty() ? "+" : ",+", name);
  return text;
}

/// The function that line `number` (from 1) of a module is in.
std::string_view kernel_at_line(std::string_view text, int64_t number) {
  constexpr std::string_view kHead = "define void @";
  std::string_view name;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(kHead)) {
      name = line.substr(kHead.size());
      name = name.substr(0, name.find('('));
    }
    if (--number == 0) break;
  }
  return name;
}

/// One module on its way through LLVM. Frees what it made in the reverse order.
class Compilation {
 public:
  Compilation(const LlvmApi& api, std::string_view text, std::string_view name)
      : api_(api), text_(text), name_(name), context_(api.create_context()) {
    api_.set_diagnostic_handler(context_, keep_error, this);
  }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;
  ~Compilation() {
    if (object_ != nullptr) api_.dispose_buffer(object_);
    if (module_ != nullptr) api_.dispose_module(module_);
    if (machine_ != nullptr) api_.dispose_machine(machine_);
    api_.dispose_context(context_);
  }

  void parse() {
    char* message = nullptr;
    LlvmBuffer* const buffer = api_.create_buffer(text_.data(), text_.size(), "kernels");
    if (api_.parse_ir(context_, buffer, &module_, &message) == 0) return;  // it owns the buffer
    module_ = nullptr;
    fail_with(take(message));
  }

  /// LLVM takes text that is no sound program for sound.
  void verify() {
    char* message = nullptr;
    const bool is_broken = api_.verify(module_, kLlvmReturnStatus, &message) != 0;
    const std::string words = take(message);
    if (is_broken) fail_with(words);
  }

  void make_machine(const std::string& features) {
    LlvmTarget* target = nullptr;
    char* message = nullptr;
    if (api_.find_target(kTriple, &target, &message) != 0) fail_with(take(message));
    LlvmMachineOptions* const options = api_.create_machine_options();
    api_.set_cpu(options, "x86-64");
    api_.set_features(options, features.c_str());
    api_.set_code_gen_level(options, kLlvmCodeGenDefault);
    api_.set_reloc_mode(options, kLlvmRelocPic);
    api_.set_code_model(options, kLlvmCodeModelSmall);
    machine_ = api_.create_machine(target, kTriple, options);
    api_.dispose_machine_options(options);
    LlvmTargetData* const data = api_.create_target_data(machine_);
    api_.set_triple(module_, kTriple);
    api_.set_data_layout(module_, data);
    api_.dispose_target_data(data);
  }

  /// Marks the kernels for the sanitizer's pass.
  void add_attribute(std::string_view attribute) {
    const unsigned kind = api_.find_attribute_kind(attribute.data(), attribute.size());
    for (LlvmValue* function = api_.get_first_function(module_); function != nullptr;
         function = api_.get_next_function(function)) {
      api_.add_attribute(function, kLlvmFunctionIndex, api_.create_attribute(context_, kind, 0));
    }
  }

  void run_passes(const std::string& passes) {
    LlvmPassOptions* const options = api_.create_pass_options();
    LlvmError* const error = api_.run_passes(module_, passes.c_str(), machine_, options);
    api_.dispose_pass_options(options);
    if (error == nullptr) return;
    char* const words = api_.get_error_message(error);
    const std::string message = words;
    api_.dispose_error_message(words);
    fail_with(message);
  }

  std::vector<std::byte> emit() {
    char* message = nullptr;
    if (api_.emit(machine_, module_, kLlvmObjectFile, &message, &object_) != 0) {
      object_ = nullptr;
      fail_with(take(message));
    }
    if (!error_.empty()) fail_with(error_);
    std::vector<std::byte> bytes(api_.get_buffer_size(object_));
    std::memcpy(bytes.data(), api_.get_buffer_start(object_), bytes.size());
    return bytes;
  }

 private:
  static void keep_error(LlvmDiagnostic* diagnostic, void* data) {
    auto& self = *static_cast<Compilation*>(data);
    if (self.api_.get_severity(diagnostic) != kLlvmSeverityError || !self.error_.empty()) return;
    self.error_ = self.take(self.api_.get_description(diagnostic));
  }

  std::string take(char* message) const {
    std::string text = message == nullptr ? "no reason given" : message;
    if (message != nullptr) api_.dispose_message(message);
    return text;
  }

  /// LLVM says "kernels:12:3: error: ...", with the line of the module.
  [[noreturn]] void fail_with(std::string_view words) const {
    std::string where;
    const std::vector<std::string_view> fields = split(words, ':');
    if (fields.size() > 2 && fields[0] == "kernels") {
      const std::string_view kernel = kernel_at_line(text_, parse_int(fields[1]).value_or(0));
      if (!kernel.empty()) where = concat(" in kernel '", kernel, "'");
    }
    fail(ErrorCode::kCompileFailed, "compiling ", name_, " with LLVM ", api_.version, " failed",
         where, ": ", trim(words));
  }

  const LlvmApi& api_;
  const std::string_view text_;
  const std::string_view name_;
  LlvmContext* const context_;
  LlvmModule* module_ = nullptr;
  LlvmTargetMachine* machine_ = nullptr;
  LlvmBuffer* object_ = nullptr;
  std::string error_;
};

}  // namespace

LlvmTool find_llvm() {
  const std::string setting = setting_string(Setting::kLlvm);
  if (!setting.empty()) {
    const std::optional<LlvmTool> llvm = describe_library(setting);
    TENON_CHECK(llvm, ErrorCode::kNotFound, "finding libLLVM: TENON_LLVM is '", setting,
                "', which is no file. Give the path of ", kSoname);
    return *llvm;
  }
  for (const char* folder : kFolders) {
    if (const auto llvm = describe_library(concat(folder, "/", kSoname))) return *llvm;
  }
  fail(ErrorCode::kNotFound, "finding libLLVM: there is no ", kSoname, " in ", join(kFolders, ", "),
       ". ", kInstall);
}

std::string llvm_fingerprint(const LlvmTool& llvm, const CpuFeatureSet& features) {
  return concat(llvm.path, '\n', llvm.identity, '\n', kTriple, ' ', feature_text(features), '\n',
                kPasses, kSanitizerPasses);
}

std::vector<std::byte> compile_llvm(const LlvmTool& llvm, std::string_view text,
                                    const CpuFeatureSet& features, std::string_view name) {
  Compilation compilation(api_of(llvm), text, name);
  compilation.parse();
  if (setting_bool(Setting::kVerifyIr)) compilation.verify();
  compilation.make_machine(feature_text(features));
  if (kAddressSanitizer) compilation.add_attribute("sanitize_address");
  if (kThreadSanitizer) compilation.add_attribute("sanitize_thread");
  compilation.run_passes(concat(kPasses, kSanitizerPasses));
  return compilation.emit();
}

}  // namespace tenon::cpu
