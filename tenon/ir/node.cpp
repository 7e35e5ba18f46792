// The intern table, allocation and iterative release of nodes. SPDX-License-Identifier: MIT

#include "tenon/ir/node.h"

#include <array>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>
#include <unordered_set>

#include "tenon/base/error.h"
#include "tenon/base/hash.h"

namespace tenon {

Attachment::~Attachment() = default;

namespace detail {

// One allocation a node: this header, then sources (Node), attributes and shape (int64_t).
struct NodeData {
  std::atomic<int64_t> count{1};
  uint64_t hash;
  uint64_t serial;
  Attachment* attachment;
  std::atomic<Attachment*> value{nullptr};
  uint32_t num_srcs;
  uint32_t num_attrs;
  uint32_t rank;
  Op op;
  DType dtype;

  Node* srcs() { return std::launder(reinterpret_cast<Node*>(this + 1)); }
  int64_t* attrs() { return reinterpret_cast<int64_t*>(srcs() + num_srcs); }
  int64_t* shape() { return attrs() + num_attrs; }

  static NodeData* make(Op op, DType dtype, ShapeView shape, std::span<const Node> srcs,
                        std::span<const int64_t> attr, Attachment* attachment, uint64_t hash);
  static void destroy(NodeData* data, std::vector<NodeData*>& pending);
  static NodeData* steal(Node& node) { return std::exchange(node.data_, nullptr); }
  static Node share(NodeData* data) { return Node(data); }
};

}  // namespace detail

namespace {

using detail::NodeData;

// Pieces of the table have locks of their own, so that threads that build graphs rarely meet.
constexpr size_t kNumShards = 64;

struct Key {
  Op op;
  DType dtype;
  ShapeView shape;
  std::span<const Node> srcs;
  std::span<const int64_t> attr;
  Attachment* attachment;
  uint64_t hash;
};

bool equals(NodeData* data, const Key& key) {
  if (data->hash != key.hash || data->op != key.op || data->dtype != key.dtype ||
      data->attachment != key.attachment || data->num_srcs != key.srcs.size() ||
      data->num_attrs != key.attr.size() || data->rank != key.shape.size()) {
    return false;
  }
  return std::equal(key.srcs.begin(), key.srcs.end(), data->srcs()) &&
         std::equal(key.attr.begin(), key.attr.end(), data->attrs()) &&
         std::equal(key.shape.begin(), key.shape.end(), data->shape());
}

struct TableHash {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
  size_t operator()(const NodeData* data) const { return data->hash; }
  size_t operator()(const Key& key) const { return key.hash; }
};

struct TableEqual {
  using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
  bool operator()(const NodeData* a, const NodeData* b) const { return a == b; }
  bool operator()(const Key& key, NodeData* data) const { return equals(data, key); }
  bool operator()(NodeData* data, const Key& key) const { return equals(data, key); }
};

struct Shard {
  std::mutex mutex;
  std::unordered_set<NodeData*, TableHash, TableEqual> nodes;  // not owning
};

// Leaked on purpose: nodes in static objects may be dropped after any destructor of ours.
std::array<Shard, kNumShards>& shards() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* table = new std::array<Shard, kNumShards>;
  return *table;
}

Shard& shard_of(uint64_t hash) {
  return shards()[(hash >> 40) % kNumShards];
}

std::atomic<uint64_t> next_serial{1};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int64_t> live_nodes{0};    // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

uint64_t hash_of(Op op, DType dtype, ShapeView shape, std::span<const Node> srcs,
                 std::span<const int64_t> attr, const Attachment* attachment) {
  uint64_t hash =
      hash_combine(static_cast<uint64_t>(op) << 8 | static_cast<uint64_t>(dtype), shape.size());
  for (int64_t dim : shape)
    hash = hash_combine(hash, static_cast<uint64_t>(dim));
  for (const Node& src : srcs)
    hash = hash_combine(hash, reinterpret_cast<uintptr_t>(src.id()));
  for (int64_t value : attr)
    hash = hash_combine(hash, static_cast<uint64_t>(value));
  return hash_combine(hash, reinterpret_cast<uintptr_t>(attachment));
}

// Drops one count. Only the thread that takes the last count, under the shard's lock, removes the
// node from the table, so a lookup can never revive a node that another thread is deleting.
bool drop_count(NodeData* data) {
  int64_t count = data->count.load(std::memory_order_relaxed);
  while (count > 1) {
    if (data->count.compare_exchange_weak(count, count - 1, std::memory_order_acq_rel)) {
      return false;
    }
  }
  Shard& shard = shard_of(data->hash);
  const std::lock_guard lock(shard.mutex);
  if (data->count.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  shard.nodes.erase(data);
  return true;
}

}  // namespace

namespace detail {

NodeData* NodeData::make(Op op, DType dtype, ShapeView shape, std::span<const Node> srcs,
                         std::span<const int64_t> attr, Attachment* attachment, uint64_t hash) {
  const size_t bytes = sizeof(NodeData) + srcs.size() * sizeof(Node) +
                       (attr.size() + shape.size()) * sizeof(int64_t);
  auto* data = new (::operator new(bytes)) NodeData;
  data->hash = hash;
  data->serial = next_serial.fetch_add(1, std::memory_order_relaxed);
  data->attachment = attachment;
  data->num_srcs = static_cast<uint32_t>(srcs.size());
  data->num_attrs = static_cast<uint32_t>(attr.size());
  data->rank = static_cast<uint32_t>(shape.size());
  data->op = op;
  data->dtype = dtype;
  std::uninitialized_copy(srcs.begin(), srcs.end(), data->srcs());
  std::uninitialized_copy(attr.begin(), attr.end(), data->attrs());
  std::uninitialized_copy(shape.begin(), shape.end(), data->shape());
  if (attachment != nullptr) attachment->retain();
  live_nodes.fetch_add(1, std::memory_order_relaxed);
  return data;
}

// Frees a node that is no longer in the table; sources that die with it are added to `pending`.
void NodeData::destroy(NodeData* data, std::vector<NodeData*>& pending) {
  for (uint32_t i = 0; i < data->num_srcs; ++i) {
    NodeData* src = steal(data->srcs()[i]);
    if (src != nullptr && drop_count(src)) pending.push_back(src);
  }
  if (data->attachment != nullptr) data->attachment->release();
  if (Attachment* value = data->value.load(std::memory_order_acquire)) value->release();
  data->~NodeData();
  ::operator delete(data);
  live_nodes.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace detail

Node::Node(const Node& other) : data_(other.data_) {
  if (data_ != nullptr) data_->count.fetch_add(1, std::memory_order_relaxed);
}

void Node::release(NodeData* data) {
  if (!drop_count(data)) return;
  std::vector<NodeData*> pending{data};
  while (!pending.empty()) {
    NodeData* next = pending.back();
    pending.pop_back();
    NodeData::destroy(next, pending);
  }
}

Op Node::op() const {
  return data_->op;
}
DType Node::dtype() const {
  return data_->dtype;
}
ShapeView Node::shape() const {
  return {data_->shape(), data_->rank};
}
std::span<const Node> Node::srcs() const {
  return {data_->srcs(), data_->num_srcs};
}
std::span<const int64_t> Node::attr() const {
  return {data_->attrs(), data_->num_attrs};
}
Attachment* Node::attachment() const {
  return data_->attachment;
}
uint64_t Node::serial() const {
  return data_->serial;
}

const Node& Node::src(size_t i) const {
  TENON_ASSERT(i < data_->num_srcs, op_name(op()), " has no source ", i);
  return data_->srcs()[i];
}

int64_t Node::attr(size_t i) const {
  TENON_ASSERT(i < data_->num_attrs, op_name(op()), " has no attribute ", i);
  return data_->attrs()[i];
}

Ref<Attachment> Node::value() const {
  // The lock keeps a concurrent set_value from freeing the value between read and count.
  if (data_->value.load(std::memory_order_acquire) == nullptr) return {};
  const std::lock_guard lock(shard_of(data_->hash).mutex);
  return Ref<Attachment>(data_->value.load(std::memory_order_acquire));
}

void Node::set_value(const Ref<Attachment>& value) const {
  Attachment* fresh = value.get();
  if (fresh != nullptr) fresh->retain();
  Attachment* old = nullptr;
  {
    const std::lock_guard lock(shard_of(data_->hash).mutex);
    old = data_->value.exchange(fresh, std::memory_order_acq_rel);
  }
  if (old != nullptr) old->release();
}

Node make_node(Op op, DType dtype, ShapeView shape, std::span<const Node> srcs,
               std::span<const int64_t> attr, Attachment* attachment) {
  const Key key{
      op, dtype, shape, srcs, attr, attachment, hash_of(op, dtype, shape, srcs, attr, attachment)};
  Shard& shard = shard_of(key.hash);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.nodes.find(key);
  if (found != shard.nodes.end()) {
    (*found)->count.fetch_add(1, std::memory_order_relaxed);
    return NodeData::share(*found);
  }
  NodeData* data = NodeData::make(op, dtype, shape, srcs, attr, attachment, key.hash);
  shard.nodes.insert(data);
  return NodeData::share(data);
}

int64_t live_node_count() {
  return live_nodes.load(std::memory_order_relaxed);
}

std::vector<Node> topological_order(std::span<const Node> roots) {
  std::vector<Node> order;
  std::unordered_set<const void*> done;
  std::vector<std::pair<Node, size_t>> stack;  // node, next source to visit
  for (const Node& root : roots) {
    if (!done.insert(root.id()).second) continue;
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node.srcs().size()) {
        const Node src = node.src(next++);
        if (done.insert(src.id()).second) stack.emplace_back(src, 0);
        continue;
      }
      order.push_back(std::move(node));
      stack.pop_back();
    }
  }
  return order;
}

Node with_srcs(const Node& node, std::span<const Node> srcs) {
  TENON_ASSERT(srcs.size() == node.srcs().size(), op_name(node.op()), ": ", srcs.size(),
               " sources given for ", node.srcs().size());
  if (std::equal(srcs.begin(), srcs.end(), node.srcs().begin())) return node;
  return make_node(node.op(), node.dtype(), node.shape(), srcs, node.attr(), node.attachment());
}

}  // namespace tenon
