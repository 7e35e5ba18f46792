// Files as memory: bytes go in and come back, and whatever happens to a file that is open is an
// error of its kind, never a signal. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "tenon/base/file.h"
#include "tenon/io/tensor_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tenon::testing {
namespace {

using ::testing::HasSubstr;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;

class Disk : public ::testing::Test {
 protected:
  static std::string dev(const std::string& path) { return "DISK:" + path; }
  static Tensor numbers(int64_t count) {
    std::vector<int32_t> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<int32_t>(i * 7 - 3));
    return Tensor::from_data(values, {count});
  }
  static std::vector<int32_t> ints(const Tensor& x) { return x.to_vector<int32_t>(); }
  size_t num_files() const {
    const std::filesystem::directory_iterator entries(folder_.path());
    return static_cast<size_t>(std::distance(begin(entries), end(entries)));
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "x.bin";
};

TEST_F(Disk, ATensorIsWrittenAndReadBack) {
  const Tensor x = numbers(1000);
  Tensor stored = (x + 1).to(dev(path_));
  EXPECT_FALSE(std::filesystem::exists(path_));  // lazy as everything
  stored.realize();
  EXPECT_EQ(stored.device().name(), dev(path_));
  const std::string bytes = read_file(path_);
  const std::vector<std::byte> expected = (x + 1).to_bytes();
  ASSERT_EQ(bytes.size(), expected.size());
  EXPECT_EQ(std::memcmp(bytes.data(), expected.data(), bytes.size()), 0);
  EXPECT_EQ(stored.to_bytes(), expected);
  EXPECT_EQ(stored.to("CPU").to_bytes(), expected);
  EXPECT_EQ((stored.to("INTERP") * 2).to("CPU").to_bytes(), ((x + 1) * 2).to_bytes());
  EXPECT_EQ(num_files(), 1U);
}

TEST_F(Disk, EveryDtypeKeepsItsBits) {
  const Tensor bytes = numbers(64).bitcast(DType::kU32).astype(DType::kU8);
  bytes.to(dev(path_)).realize();
  for (const DType dtype : storage_dtypes()) {
    if (dtype == DType::kBool) continue;
    const Tensor read = open_array(path_, dtype, {64 / dtype_size_bytes(dtype)});
    EXPECT_EQ(read.dtype(), dtype);
    EXPECT_EQ(read.to("CPU").to_bytes(), bytes.to_bytes()) << dtype_long_name(dtype);
  }
  EXPECT_ERROR(open_array(path_, DType::kBool, {64}), kInvalid, "bool", "uint8");
}

TEST_F(Disk, APartBeginsAtAnyByte) {
  const Tensor x = numbers(100);
  x.to(dev(path_)).realize();
  std::string bytes = read_file(path_);
  write_file_atomic(path_, "abc" + bytes);
  const Tensor part = open_array(path_, DType::kI32, {5, 10}, 3 + 40 * 4);
  EXPECT_EQ(ints(part.to("CPU")), ints(x.reshape({10, 10}).getitem({Slice{4, 9}}).reshape({50})));
  // A slice of it is a part of the file too.
  EXPECT_EQ(ints(part.getitem({Slice{1, 3}}).to("CPU")), ints(x.getitem({Slice{50, 70}})));
  EXPECT_EQ(ints(part.reshape({50}).getitem({Slice{7, 8}}).to("INTERP").to("CPU")),
            ints(x.getitem({Slice{47, 48}})));
  EXPECT_EQ(part.to_bytes().size(), 200U);
}

TEST_F(Disk, NoProgramRunsThere) {
  const Tensor x = numbers(4).to(dev(path_));
  EXPECT_ERROR((x + 1).realize(), ErrorCode::kUnsupported, dev(path_), "runs no programs", "to()",
               "kernel 'e_4'");
  Tensor stored = x;
  stored.realize();
  EXPECT_ERROR((stored * stored).to_bytes(), ErrorCode::kUnsupported, "runs no programs");
  EXPECT_ERROR(stored.reshape({2, 2}).transpose().to("CPU").to_bytes(), ErrorCode::kUnsupported,
               "runs no programs");
  EXPECT_EQ(ints(stored.to("CPU") * 2), ints(numbers(4) * 2));
}

TEST_F(Disk, AFileIsReplacedAtOnceAndOldTensorsKeepTheirs) {
  Tensor first = numbers(10).to(dev(path_)).realize();
  const Tensor lazy = first.to("CPU");
  Tensor second = (numbers(20) + 5).to(dev(path_)).realize();
  EXPECT_EQ(ints(first), ints(numbers(10)));
  EXPECT_EQ(ints(second), ints(numbers(20) + 5));
  EXPECT_EQ(ints(lazy), ints(numbers(10)));
  EXPECT_EQ(read_file(path_).size(), 80U);
  EXPECT_EQ(num_files(), 1U);
}

TEST_F(Disk, AFileIsOpenAsLongAsATensorOfIt) {
  const auto num_open = [] {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return std::distance(begin(entries), end(entries));
  };
  const auto before = num_open();
  for (int i = 0; i < 3; ++i) {
    const Tensor written = numbers(100).to(dev(path_)).realize();
    EXPECT_EQ(num_open(), before + 1);
    const Tensor part = open_array(path_, DType::kI32, {10}, 40);
    const Tensor other = part.getitem({Slice{2, 4}});
    EXPECT_EQ(num_open(), before + 2);
    EXPECT_EQ(ints(part), ints(written.to("CPU").getitem({Slice{10, 20}})));
  }
  EXPECT_EQ(num_open(), before);
}

TEST_F(Disk, LargerThanOnePartOfACopy) {
  Tensor x = numbers((int64_t{40} << 20) / 4 + 1);
  x.to(dev(path_)).realize();
  // From file to file nothing is mapped.
  Tensor again = open_array(path_, DType::kI32, x.shape()).to(dev(folder_ / "y.bin")).realize();
  EXPECT_EQ(again.to_bytes(), x.to_bytes());
}

TEST_F(Disk, ThreadsReadOneFileAndWriteTheirOwn) {
  const Tensor x = numbers(4096);
  x.to(dev(path_)).realize();
  const Tensor stored = open_array(path_, DType::kI32, {4, 1024});
  const std::vector<int32_t> expected = ints(x);
  std::vector<std::thread> threads;
  std::array<bool, 4> is_right{};
  for (int64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const Tensor row = stored.getitem({Slice{i, i + 1}});
      const std::string path = folder_ / ("row" + std::to_string(i));
      row.to(dev(path)).realize();
      const std::vector<int32_t> values = ints(open_array(path, DType::kI32, {1024}).to("CPU"));
      is_right[static_cast<size_t>(i)] =
          std::equal(values.begin(), values.end(), expected.begin() + i * 1024) &&
          values == ints(row.to("CPU"));
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_THAT(is_right, ::testing::Each(true));
}

TEST_F(Disk, EmptyTensorsAreEmptyFiles) {
  const Tensor empty = Tensor::from_span<float>({}, {0, 3});
  empty.to(dev(path_)).realize();
  EXPECT_EQ(read_file(path_), "");
  EXPECT_EQ(open_array(path_, DType::kF32, {0, 3}).to("CPU").to_bytes().size(), 0U);
  EXPECT_ERROR(open_array(path_, DType::kF32, {1}), kInvalid, "0 bytes");
}

TEST_F(Disk, OnePathOneDevice) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  Device& relative = Device::get("disk:./a/../x.bin");
  std::filesystem::current_path(before);
  EXPECT_EQ(&relative, &Device::get(dev(path_)));
  EXPECT_NE(&relative, &Device::get("disk:./a/../x.bin")) << "another file, seen from here";
  std::filesystem::create_symlink(path_, folder_ / "link");
  numbers(3).to(dev(path_)).realize();
  numbers(5).to(dev(folder_ / "link")).realize();  // what it leads to
  EXPECT_EQ(read_file(path_).size(), 20U);
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
  EXPECT_ERROR(Device::get("DISK"), kInvalid, "needs a path", "DISK:PATH");
  EXPECT_ERROR(Device::get("DISK:"), kInvalid, "needs a path");
}

TEST_F(Disk, WhatIsNoFileIsRefused) {
  EXPECT_ERROR(open_array(path_, DType::kU8, {1}), ErrorCode::kNotFound, path_);
  EXPECT_ERROR(open_array(folder_.path(), DType::kU8, {1}), ErrorCode::kIo, "regular file");
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_ERROR(open_array(path_, DType::kU8, {1}), ErrorCode::kIo, "regular file");
  EXPECT_ERROR(numbers(1).to(dev(path_)).realize(), ErrorCode::kIo, "regular file");
  EXPECT_ERROR(numbers(1).to(dev("/dev/null")).realize(), ErrorCode::kIo, "regular file");
  EXPECT_ERROR(numbers(1).to(dev(folder_.path())).realize(), ErrorCode::kIo, "regular file");
  EXPECT_ERROR(numbers(1).to(dev(folder_ / "no/x")).realize(), ErrorCode::kNotFound, "no/x");
  EXPECT_ERROR(open_array("/proc/self/mem", DType::kU8, {1}), kInvalid, "0 bytes");
}

TEST_F(Disk, WhatMayNotBeReadIsRefused) {
  numbers(3).to(dev(path_)).realize();
  ASSERT_EQ(::chmod(path_.c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  const uid_t user = ::geteuid();
  if (user == 0) {
    ASSERT_EQ(::seteuid(65534), 0);  // root reads everything
  }
  EXPECT_ERROR(open_array(path_, DType::kU8, {1}), ErrorCode::kIo, path_, "Permission denied");
  if (user == 0) {
    EXPECT_ERROR(numbers(1).to(dev(folder_ / "new")).realize(), ErrorCode::kIo,
                 "Permission denied");
    ASSERT_EQ(::seteuid(0), 0);
  }
}

TEST_F(Disk, PartsBeyondTheEndAreRefused) {
  numbers(10).to(dev(path_)).realize();
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_ERROR(open_array(path_, DType::kI32, {11}), kInvalid, "40 bytes", "(11)");
  EXPECT_ERROR(open_array(path_, DType::kI32, {10}, 1), kInvalid, "40 bytes");
  EXPECT_ERROR(open_array(path_, DType::kI32, {1}, -4), kInvalid, "-4");
  EXPECT_ERROR(open_array(path_, DType::kI32, {1}, kHuge), kInvalid, "40 bytes");
  EXPECT_ERROR(open_array(path_, DType::kI32, {1}, -kHuge), kInvalid, "40 bytes");
  EXPECT_ERROR(open_array(path_, DType::kF64, {int64_t{1} << 57}), kInvalid, "40 bytes");
  EXPECT_EQ(open_array(path_, DType::kI32, {0}, 40).size(), 0);
}

TEST_F(Disk, AFileThatChangedIsAnErrorAndNoSignal) {
  const auto changed = [&](auto&& change) {
    numbers(4096).to(dev(path_)).realize();
    const Tensor x = open_array(path_, DType::kI32, {4000}, 64);
    const Tensor lazy = x.to("CPU");
    change();
    EXPECT_ERROR(x.to_bytes(), ErrorCode::kIo, path_, "changed after it had been opened");
    EXPECT_ERROR(lazy.to_bytes(), ErrorCode::kIo, "changed", "Open it again");
  };
  changed([&] { std::filesystem::resize_file(path_, 5000); });
  changed([&] { std::filesystem::resize_file(path_, 0); });
  changed([&] { std::ofstream(path_, std::ios::app) << "more"; });
  changed([&] {       // as large as before
    ::usleep(20000);  // the clock of files is coarse
    std::fstream(path_, std::ios::in | std::ios::out) << "abcd";
  });
  numbers(5).to(dev(path_)).realize();
  const Tensor kept = open_array(path_, DType::kI32, {5});
  std::filesystem::remove(path_);
  EXPECT_EQ(ints(kept), ints(numbers(5)));  // a name less, the same file
}

}  // namespace
}  // namespace tenon::testing
