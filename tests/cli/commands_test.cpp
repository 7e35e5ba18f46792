// devices, settings, help, version and TENON_DEBUG. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/base/file.h"
#include "tenon/base/settings.h"
#include "tests/cli/run_tenon.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_tenon;
using testing::TempFolder;
using testing::TenonResult;

TEST(CliDevices, TellsWhatEveryBackendShowed) {
  const TenonResult result = run_tenon({"devices"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("CPU  present, 1 device\n  renderer LLVM: present"));
  EXPECT_THAT(result.out, HasSubstr("round trip: CPU:0:LLVM: compiled"));
  EXPECT_THAT(result.out, HasSubstr("ran it on 1000 float32"));
  EXPECT_THAT(result.out, HasSubstr(": all right"));
  EXPECT_THAT(result.out, HasSubstr("NULL:0:LLVM: compiled"));
  EXPECT_THAT(result.out, HasSubstr("does not run programs"));
  EXPECT_THAT(result.out, HasSubstr("DISK  present, files as memory: DISK:PATH\n"));
  EXPECT_THAT(result.out, HasSubstr("wrote 1000 float32, read them back in"));
  EXPECT_THAT(result.out, HasSubstr("default: CPU:0:LLVM\n"));
}

TEST(CliDevices, FollowsDev) {
  const TenonResult result = run_tenon({"devices"}, {{"DEV", "null;CPU"}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("default: NULL:0:LLVM\n"));
}

TEST(CliDevices, SaysWhatToInstallWithoutACompiler) {
  const TenonResult result = run_tenon({"devices"}, {{"PATH", ""}, {"TENON_LLVM", "/none"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("CPU  present"));
  EXPECT_THAT(result.out, HasSubstr("renderer CLANG: not present"));
  EXPECT_THAT(result.out, HasSubstr("clang-22"));
  EXPECT_THAT(result.out, HasSubstr("renderer LLVM: not present"));
  EXPECT_THAT(result.err, HasSubstr("no default device"));
}

TEST(CliSettings, HasARowForEverySetting) {
  const TenonResult result = run_tenon({"settings"}, {{"TENON_THREADS", "3"}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("NAME"));
  for (const SettingInfo& info : settings_table()) {
    const std::string line = "\n" + std::string(info.variable) + " ";
    const size_t at = result.out.find(line);
    ASSERT_NE(at, std::string::npos) << info.variable;
    const std::string row = result.out.substr(at + 1, result.out.find('\n', at + 1) - at - 1);
    EXPECT_THAT(row, HasSubstr(std::string(info.help)));
    if (info.setting == Setting::kThreads) {
      EXPECT_THAT(row, ::testing::MatchesRegex("TENON_THREADS +count +0 +3 +.*"));
    }
  }
}

TEST(CliSettings, NamesWhatIsNoSetting) {
  const TenonResult result = run_tenon({"settings"}, {{"TENON_DEBG", "1"}, {"TENON_QWXZ", "1"}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("TENON_DEBG is set and is no setting; did you mean TENON_DEBUG?"));
  EXPECT_THAT(result.out, HasSubstr("TENON_QWXZ is set and is no setting."));
}

TEST(CliSettings, ShowsTheOthersBesideABadOne) {
  const TenonResult result = run_tenon({"settings"}, {{"TENON_CACHE", "perhaps"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("(bad)"));
  EXPECT_THAT(result.out, HasSubstr("TENON_SEED"));
  EXPECT_THAT(result.err, HasSubstr("\"perhaps\" is not a switch"));
}

TEST(CliSettings, ShowsABadTenonDebugToo) {
  const TenonResult result = run_tenon({"settings"}, {{"TENON_DEBUG", "loud"}});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("(bad)"));
  EXPECT_THAT(result.err, HasSubstr("\"loud\" is not a whole number"));
}

TEST(CliHelp, HasExamplesForEveryCommand) {
  const TenonResult top = run_tenon({"--help"});
  EXPECT_EQ(top.exit_code, 0);
  EXPECT_THAT(top.out, HasSubstr("Exit codes: 0 done, 1 failed, 2 wrong usage"));
  for (const std::string command : {"devices", "run", "compile", "explain", "settings"}) {
    EXPECT_THAT(top.out, HasSubstr("\n  " + command));
    const TenonResult help = run_tenon({command, "--help"});
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Example")) << command;
    EXPECT_THAT(help.out, HasSubstr("tenon " + command)) << command;
    EXPECT_EQ(help.err, "") << command;
  }
}

TEST(CliHelp, VersionIsOneLine) {
  const TenonResult result = run_tenon({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, ::testing::MatchesRegex("tenon [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(CliDebug, TellsOfCompilationsAndLaunches) {
  const TempFolder folder;
  write_file_atomic(folder / "twice.tg",
                    "graph twice { in %x: f32[5]\n %0 = add f32[5] %x, %x\n out y = %0\n }");
  const std::map<std::string, std::string> fresh = {{"TENON_CACHE_DIR", folder / "cache"}};
  auto with_debug = [&](const std::string& level) {
    auto variables = fresh;
    variables["TENON_DEBUG"] = level;
    const TenonResult result = run_tenon({"run", folder / "twice.tg"}, variables);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  const std::string source_text = with_debug("2");
  EXPECT_THAT(source_text, HasSubstr("tenon: compiled e_5 on CPU:0:LLVM: "));
  EXPECT_THAT(source_text, HasSubstr("tenon: launched e_5 on CPU:0:LLVM: "));
  EXPECT_THAT(source_text, HasSubstr("define void @e_5_"));
  const std::string second = with_debug("1");
  EXPECT_THAT(second, HasSubstr("tenon: found e_5 on CPU:0:LLVM: "));
  EXPECT_THAT(second, Not(HasSubstr("compiled")));
  EXPECT_EQ(with_debug("0"), "");
}

}  // namespace
}  // namespace tenon
