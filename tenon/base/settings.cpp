// Reads the environment for settings.h. Values are kept in a table with one slot a setting.
// SPDX-License-Identifier: MIT
#include "tenon/base/settings.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon {

namespace {

// The environment is read, never written, and only here; a host program that calls setenv
// beside us races with every C library function too.
std::string environment(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::string() : std::string(text);
}

std::string default_verify_ir() {
#ifdef NDEBUG
  return "0";
#else
  return "1";
#endif
}

std::string default_cache_folder() {
  const std::string folder = user_cache_folder();
  return folder.empty() ? folder : folder + "/tenon";
}

constexpr size_t kNumSettings = 0
#define TENON_SETTING(id, variable, kind, default_text, help) +1
#include "tenon/base/settings.def"
#undef TENON_SETTING
    ;

struct Slot {
  std::atomic<bool> is_loaded = false;
  std::atomic<int64_t> number = 0;  // bool and int kinds
  std::string text;                 // guarded by the mutex
};

struct Store {
  std::mutex mutex;
  std::array<Slot, kNumSettings> slots;
};

// Leaked on purpose: settings are read by destructors of statics too.
Store& store() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static Store* const instance = new Store;
  return *instance;
}

const SettingInfo& info_of(Setting setting) {
  const size_t index = static_cast<size_t>(setting);
  TENON_ASSERT(index < kNumSettings, "no setting has the number ", index);
  return settings_table()[index];
}

Slot& slot_of(Setting setting) {
  return store().slots[static_cast<size_t>(setting)];
}

std::optional<int64_t> parse_bool(std::string_view text) {
  for (const std::string_view word : {"1", "true", "on", "yes"}) {
    if (equal_ignoring_case(text, word)) return 1;
  }
  for (const std::string_view word : {"0", "false", "off", "no"}) {
    if (equal_ignoring_case(text, word)) return 0;
  }
  return std::nullopt;
}

int64_t parse_number(const SettingInfo& info, std::string_view text) {
  const std::string_view trimmed = trim(text);
  switch (info.kind) {
    case SettingKind::kBool: {
      const std::optional<int64_t> value = parse_bool(trimmed);
      TENON_CHECK(value, ErrorCode::kInvalidArgument, "setting ", info.variable, ": ", quoted(text),
                  " is not a switch; expected 0 or 1. It says: ", info.help);
      return *value;
    }
    case SettingKind::kInt:
    case SettingKind::kCount: {
      const std::optional<int64_t> value = parse_int(trimmed);
      TENON_CHECK(value, ErrorCode::kInvalidArgument, "setting ", info.variable, ": ", quoted(text),
                  " is not a whole number of at most 64 bits. It says: ", info.help);
      TENON_CHECK(info.kind == SettingKind::kInt || *value >= 0, ErrorCode::kInvalidArgument,
                  "setting ", info.variable, ": ", *value, " is negative. It says: ", info.help);
      return *value;
    }
    case SettingKind::kString: return 0;
  }
  return 0;
}

// Both need the mutex.
void set_slot(const SettingInfo& info, Slot& slot, std::string_view text) {
  slot.number.store(parse_number(info, text), std::memory_order_relaxed);
  slot.text = text;
  slot.is_loaded.store(true, std::memory_order_release);
}

void load_slot(const SettingInfo& info, Slot& slot) {
  if (slot.is_loaded.load(std::memory_order_relaxed)) return;
  const std::string text = environment(std::string(info.variable).c_str());
  set_slot(info, slot, text.empty() ? info.default_text : text);
}

int64_t number_of(Setting setting) {
  Slot& slot = slot_of(setting);
  if (!slot.is_loaded.load(std::memory_order_acquire)) {
    const SettingInfo& info = info_of(setting);
    const std::lock_guard lock(store().mutex);
    load_slot(info, slot);
  }
  return slot.number.load(std::memory_order_relaxed);
}

void assert_kind(Setting setting, SettingKind kind, SettingKind other) {
  const SettingInfo& info = info_of(setting);
  TENON_ASSERT(info.kind == kind || info.kind == other, "setting ", info.variable,
               " was asked for as another kind");
}

}  // namespace

std::span<const SettingInfo> settings_table() {
  // Leaked on purpose, as the store.
  static const auto* const table = new std::array<SettingInfo, kNumSettings>{{
#define TENON_SETTING(id, variable, kind, default_text, help) \
  {Setting::id, variable, SettingKind::k##kind, default_text, help},
#include "tenon/base/settings.def"
#undef TENON_SETTING
  }};
  return *table;
}

bool setting_bool(Setting setting) {
  assert_kind(setting, SettingKind::kBool, SettingKind::kBool);
  return number_of(setting) != 0;
}

int64_t setting_int(Setting setting) {
  assert_kind(setting, SettingKind::kInt, SettingKind::kCount);
  return number_of(setting);
}

std::string setting_string(Setting setting) {
  assert_kind(setting, SettingKind::kString, SettingKind::kString);
  return setting_text(setting);
}

std::string setting_text(Setting setting) {
  const SettingInfo& info = info_of(setting);
  Slot& slot = slot_of(setting);
  const std::lock_guard lock(store().mutex);
  load_slot(info, slot);
  return slot.text;
}

ScopedSetting::ScopedSetting(Setting setting, std::string_view text) : setting_(setting) {
  const SettingInfo& info = info_of(setting);
  Slot& slot = slot_of(setting);
  const std::lock_guard lock(store().mutex);
  if (slot.is_loaded.load(std::memory_order_relaxed)) before_ = slot.text;
  set_slot(info, slot, text);
}

ScopedSetting::~ScopedSetting() {
  Slot& slot = slot_of(setting_);
  const std::lock_guard lock(store().mutex);
  if (before_) {
    set_slot(info_of(setting_), slot, *before_);  // was accepted before, so it cannot throw
  } else {
    slot.is_loaded.store(false, std::memory_order_release);
  }
}

std::vector<std::string> unknown_variables() {
  std::vector<std::string> unknown;
  if (environ == nullptr) return unknown;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = split(*entry, '=')[0];
    if (!variable.starts_with("TENON_")) continue;
    const bool is_known = std::ranges::any_of(
        settings_table(), [&](const SettingInfo& info) { return info.variable == variable; });
    if (!is_known) unknown.emplace_back(variable);
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

std::string home_folder() {
  return environment("HOME");
}

std::string user_cache_folder() {
  // The XDG Base Directory Specification 0.8: a relative path is to be ignored.
  std::string folder = environment("XDG_CACHE_HOME");
  if (folder.starts_with('/')) return folder;
  const std::string home = home_folder();
  return home.empty() ? home : home + "/.cache";
}

std::string temporary_folder() {
  std::string folder = environment("TMPDIR");
  return folder.empty() ? "/tmp" : folder;
}

std::vector<std::string> program_folders() {
  std::vector<std::string> folders;
  const std::string path = environment("PATH");
  for (const std::string_view folder : split(path, ':')) {
    if (!folder.empty()) folders.emplace_back(folder);
  }
  return folders;
}

}  // namespace tenon
