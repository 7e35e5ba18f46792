// Settings: table, kinds, bad values, overrides, threads. Environment variables are set in this
// process only before any thread starts. SPDX-License-Identifier: MIT
#include "tenon/base/settings.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tenon/base/text.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

// Sets a variable for the life of the object.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = ::getenv(name)) before_ = before;
    if (value == nullptr) {
      ::unsetenv(name);
    } else {
      ::setenv(name, value, 1);
    }
  }
  ~ScopedVariable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(Settings, EveryRowIsCompleteAndUnique) {
  std::set<std::string_view> variables;
  for (const SettingInfo& info : settings_table()) {
    EXPECT_TRUE(variables.insert(info.variable).second) << info.variable;
    EXPECT_FALSE(info.help.empty()) << info.variable;
    EXPECT_EQ(&info, &settings_table()[static_cast<size_t>(info.setting)]);
    EXPECT_NO_THROW({ const ScopedSetting reset(info.setting, info.default_text); })
        << info.variable;
  }
  EXPECT_TRUE(variables.contains("DEV"));
}

// No other test here reads this one first, so the order of tests does not matter.
TEST(Settings, ValueIsReadOnceAtFirstUse) {
  const ScopedVariable first("TENON_SEED", "-12");
  EXPECT_EQ(setting_int(Setting::kSeed), -12);
  const ScopedVariable second("TENON_SEED", "99");
  EXPECT_EQ(setting_int(Setting::kSeed), -12);
}

TEST(Settings, EmptyVariableCountsAsNotSet) {
  const ScopedVariable empty("TENON_CACHE_MAX_MB", "");
  EXPECT_EQ(setting_int(Setting::kCacheMaxMb), 1024);
}

TEST(Settings, BadVariableIsAnErrorEachTimeThatNamesIt) {
  const ScopedVariable bad("TENON_KEEP_SOURCE", "maybe");
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_ERROR(setting_bool(Setting::kKeepSource), ErrorCode::kInvalidArgument,
                 "TENON_KEEP_SOURCE", "\"maybe\"", "expected 0 or 1");
  }
}

TEST(Settings, BadOverridesAreRefusedAndChangeNothing) {
  const ScopedSetting good(Setting::kThreads, "3");
  EXPECT_ERROR(ScopedSetting(Setting::kThreads, "-1"), ErrorCode::kInvalidArgument, "TENON_THREADS",
               "negative");
  EXPECT_ERROR(ScopedSetting(Setting::kThreads, "two"), ErrorCode::kInvalidArgument,
               "TENON_THREADS", "whole number");
  EXPECT_ERROR(ScopedSetting(Setting::kThreads, "9223372036854775808"), ErrorCode::kInvalidArgument,
               "TENON_THREADS", "9223372036854775808");
  EXPECT_EQ(setting_int(Setting::kThreads), 3);
}

TEST(Settings, AskingForAnotherKindIsABug) {
  EXPECT_ERROR(setting_bool(Setting::kSeed), ErrorCode::kInternal, "TENON_SEED", "another kind");
  EXPECT_ERROR(setting_string(Setting::kSeed), ErrorCode::kInternal, "TENON_SEED");
  EXPECT_ERROR(setting_int(Setting::kDevice), ErrorCode::kInternal, "DEV");
}

TEST(Settings, BoolWords) {
  for (const std::string_view word : {"1", "true", "ON", "Yes", " 1 "}) {
    const ScopedSetting set(Setting::kCache, word);
    EXPECT_TRUE(setting_bool(Setting::kCache)) << word;
  }
  for (const std::string_view word : {"0", "FALSE", "off", "no"}) {
    const ScopedSetting set(Setting::kCache, word);
    EXPECT_FALSE(setting_bool(Setting::kCache)) << word;
  }
}

TEST(Settings, OverridesNestAndEnd) {
  const std::string before = setting_string(Setting::kDevice);
  {
    const ScopedSetting outer(Setting::kDevice, "CPU");
    {
      const ScopedSetting inner(Setting::kDevice, "INTERP;NULL");
      EXPECT_EQ(setting_string(Setting::kDevice), "INTERP;NULL");
    }
    EXPECT_EQ(setting_text(Setting::kDevice), "CPU");
  }
  EXPECT_EQ(setting_string(Setting::kDevice), before);
}

TEST(Settings, OverrideBeforeFirstReadLeavesTheVariableToBeRead) {
  const ScopedVariable variable("TENON_DEBUG", "2");
  {
    const ScopedSetting override_debug(Setting::kDebug, "7");
    EXPECT_EQ(setting_int(Setting::kDebug), 7);
  }
  EXPECT_EQ(setting_int(Setting::kDebug), 2);
}

TEST(Settings, ReadersSeeWholeValuesWhileOverridesChange) {
  const ScopedSetting base(Setting::kDevice, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
  const ScopedSetting base_number(Setting::kThreads, "1");
  std::vector<std::jthread> readers;
  std::atomic<bool> is_wrong = false;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const std::string text = setting_string(Setting::kDevice);
        const int64_t number = setting_int(Setting::kThreads);
        const bool is_whole = text == std::string(32, 'a') || text == std::string(32, 'b');
        if (!is_whole || (number != 1 && number != 2)) is_wrong = true;
      }
    });
  }
  for (int i = 0; i < 500; ++i) {
    const ScopedSetting change(Setting::kDevice, std::string(32, 'b'));
    const ScopedSetting change_number(Setting::kThreads, "2");
  }
  readers.clear();
  EXPECT_FALSE(is_wrong);
}

TEST(Settings, UnknownVariablesAreListed) {
  const ScopedVariable misspelt("TENON_VERFY_IR", "1");
  const ScopedVariable other("TENNIS", "1");
  EXPECT_EQ(unknown_variables(), std::vector<std::string>{"TENON_VERFY_IR"});
}

TEST(Settings, CacheFolderFollowsXdgThenHome) {
  const ScopedVariable home("HOME", "/home/someone");
  {
    const ScopedVariable xdg("XDG_CACHE_HOME", "/var/cache/someone");
    EXPECT_EQ(user_cache_folder(), "/var/cache/someone");
  }
  {
    const ScopedVariable relative("XDG_CACHE_HOME", "cache");
    EXPECT_EQ(user_cache_folder(), "/home/someone/.cache");
  }
  const ScopedVariable no_xdg("XDG_CACHE_HOME", nullptr);
  const ScopedVariable no_home("HOME", nullptr);
  EXPECT_EQ(user_cache_folder(), "");
}

TEST(Settings, ProgramFoldersSkipsEmptyOnes) {
  const ScopedVariable path("PATH", ":/bin::/usr/bin:");
  EXPECT_EQ(program_folders(), (std::vector<std::string>{"/bin", "/usr/bin"}));
}

TEST(Settings, TestsVerifyTheIrAndHaveTheirOwnCache) {
  if (::getenv("CTEST_INTERACTIVE_DEBUG_MODE") == nullptr) GTEST_SKIP() << "not started by CTest";
  EXPECT_TRUE(setting_bool(Setting::kVerifyIr));
  EXPECT_TRUE(setting_string(Setting::kCacheDir).ends_with("/test-cache/base_test"));
}

}  // namespace
}  // namespace tenon
