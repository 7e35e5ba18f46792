// Content hashes: known answers, unambiguous sequences, hex form.
// SPDX-License-Identifier: MIT
#include "tenon/base/hash.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace tenon {
namespace {

// From xxhsum 0.8.1 (-H3 and -H2), a program of the hash's author.
TEST(Hash, KnownAnswers) {
  EXPECT_EQ(to_hex(hash64("")), "2d06800538d394c2");
  EXPECT_EQ(to_string(hash128("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(to_hex(hash64("tenon")), "2ded3ab03abfecc0");
  EXPECT_EQ(to_string(hash128("tenon")), "9886abf3370a77038baeca8257c6445d");
  std::string longer;  // over 240 bytes: another path of XXH3
  for (int i = 0; i < 8; ++i) {
    longer += "tenon joins one piece of wood to another; ";
  }
  EXPECT_EQ(to_hex(hash64(longer)), "ed2164bc6fc23ce3");
  EXPECT_EQ(to_string(hash128(longer)), "8afc64a9f7cdb11eed2164bc6fc23ce3");
}

TEST(Hash, SeedAndContentChangeTheHash) {
  EXPECT_NE(hash64("abc", 1), hash64("abc", 2));
  EXPECT_NE(hash64("abc"), hash64("abd"));
  EXPECT_NE(hash128("abc"), hash128(std::string_view("abc\0", 4)));
}

TEST(Hasher, SequencesAreUnambiguous) {
  const std::vector<int64_t> one_two = {1, 2};
  const std::vector<int64_t> one = {1};
  const std::vector<std::byte> bytes = {std::byte{'a'}};
  std::set<Hash128> hashes;
  size_t count = 0;
  const auto add = [&](const Hasher& hasher) {
    hashes.insert(hasher.hash());
    ++count;
  };
  add(Hasher());
  add(std::move(Hasher().add("")));
  add(std::move(Hasher().add("ab").add("c")));
  add(std::move(Hasher().add("a").add("bc")));
  add(std::move(Hasher().add("abc")));
  add(std::move(Hasher().add("abc").add("")));
  add(std::move(Hasher().add("1")));
  add(std::move(Hasher().add(1)));
  add(std::move(Hasher().add(-1)));
  add(std::move(Hasher().add(UINT64_MAX)));
  add(std::move(Hasher().add(1.0)));
  add(std::move(Hasher().add(-0.0)));
  add(std::move(Hasher().add(0.0)));
  add(std::move(Hasher().add(1).add(2)));
  add(std::move(Hasher().add(std::span<const int64_t>(one_two))));
  add(std::move(Hasher().add(std::span<const int64_t>(one)).add(2)));
  add(std::move(Hasher().add("a")));
  add(std::move(Hasher().add(std::span<const std::byte>(bytes))));
  add(std::move(Hasher().add(Hash128{1, 2})));
  add(std::move(Hasher().add(Hash128{2, 1})));
  EXPECT_EQ(hashes.size(), count);
}

TEST(Hasher, WidthAndSignOfIntegersDoNotMatter) {
  const Hash128 expected = Hasher().add(uint64_t{5}).hash();
  EXPECT_EQ(Hasher().add(5).hash(), expected);
  EXPECT_EQ(Hasher().add(int8_t{5}).hash(), expected);
  EXPECT_EQ(Hasher().add(int8_t{-5}).hash(), Hasher().add(int64_t{-5}).hash());
  EXPECT_NE(Hasher().add(int8_t{-5}).hash(), expected);
}

TEST(Hasher, MoreMayBeAddedAfterHash) {
  Hasher hasher;
  hasher.add("a");
  const Hash128 first = hasher.hash();
  EXPECT_EQ(hasher.hash(), first);
  hasher.add("b");
  EXPECT_EQ(hasher.hash(), Hasher().add("a").add("b").hash());
  EXPECT_NE(hasher.hash(), first);
}

TEST(Hash, CombineDependsOnOrder) {
  EXPECT_NE(hash_combine(hash_combine(0, 1), 2), hash_combine(hash_combine(0, 2), 1));
  EXPECT_NE(hash_combine(0, 0), hash_combine(1, 0));
}

TEST(Hash, HexKeepsLeadingZeros) {
  EXPECT_EQ(to_hex(0x1f), "000000000000001f");
  EXPECT_EQ(to_string(Hash128{.low = 2, .high = 1}), "00000000000000010000000000000002");
}

}  // namespace
}  // namespace tenon
