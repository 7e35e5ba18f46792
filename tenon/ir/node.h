// The expression nodes of the tensor graph and of kernels: immutable, hash-consed, counted.
// Equal nodes are one node, so equality is pointer equality; a node is built through `make_node`
// (raw) or the checked builders of ir/tensor_ops.h and ir/kernel.h. Any thread may build and drop
// nodes. Release is iterative: a chain of a million nodes is dropped without deep stack.
// SPDX-License-Identifier: MIT

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/types/dtype.h"
#include "tenon/types/op.h"

namespace tenon {

using Shape = std::vector<int64_t>;
using ShapeView = std::span<const int64_t>;

/// Something of a higher layer that a node keeps alive (the storage of a buffer, say). Intrusively
/// counted, since nodes are dropped on any thread; opaque to ir/.
class Attachment {
 public:
  Attachment() = default;
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  virtual ~Attachment();
  void retain() const { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() const {
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  mutable std::atomic<int64_t> count_{0};
};

/// Counted pointer to an Attachment (or a class derived from it).
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* pointer) : pointer_(pointer) {
    if (pointer_ != nullptr) pointer_->retain();
  }
  Ref(const Ref& other) : Ref(other.pointer_) {}
  Ref(Ref&& other) noexcept : pointer_(std::exchange(other.pointer_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  ~Ref() {
    if (pointer_ != nullptr) pointer_->release();
  }
  T* get() const { return pointer_; }
  // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete): it cannot follow counts
  T* operator->() const { return pointer_; }
  T& operator*() const { return *pointer_; }
  explicit operator bool() const { return pointer_ != nullptr; }

 private:
  T* pointer_ = nullptr;
};

namespace detail {
struct NodeData;  // node.cpp lays out sources, attributes and shape behind it
}

/// Handle on a node: 8 bytes, cheap to copy, null when default-constructed.
class Node {
 public:
  Node() = default;
  Node(const Node& other);
  Node(Node&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Node& operator=(Node other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Node() {
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): it cannot follow counts
    if (data_ != nullptr) release(data_);
  }

  explicit operator bool() const { return data_ != nullptr; }
  Op op() const;
  DType dtype() const;
  /// Shape of a tensor node; empty for 0-d tensors and for all kernel expressions.
  ShapeView shape() const;
  std::span<const Node> srcs() const;
  const Node& src(size_t i) const;
  /// Integer attributes; op.def says what they are per op.
  std::span<const int64_t> attr() const;
  int64_t attr(size_t i) const;
  /// What the node was made with (part of its identity), or null.
  Attachment* attachment() const;
  /// Serial number of creation: unique in the process, sources before users. Not stable between
  /// runs: order by it inside a pass, never print it.
  uint64_t serial() const;

  /// The value that a higher layer has computed for this node, or null. Not part of its identity.
  Ref<Attachment> value() const;
  /// Sets or (with null) clears it; the last writer wins.
  void set_value(const Ref<Attachment>& value) const;

  /// Pointer identity, for keys of per-pass maps.
  const void* id() const { return data_; }
  friend bool operator==(const Node& a, const Node& b) { return a.data_ == b.data_; }

 private:
  friend struct detail::NodeData;
  friend Node make_node(Op, DType, ShapeView, std::span<const Node>, std::span<const int64_t>,
                        Attachment*);
  explicit Node(detail::NodeData* data) : data_(data) {}
  static void release(detail::NodeData* data);

  detail::NodeData* data_ = nullptr;
};

/// Interns the node with exactly these parts. Checks nothing: use the builders.
Node make_node(Op op, DType dtype, ShapeView shape, std::span<const Node> srcs,
               std::span<const int64_t> attr = {}, Attachment* attachment = nullptr);

/// Number of live nodes in the process (for leak tests).
int64_t live_node_count();

/// Nodes reachable from `roots`, each once, sources before users; iterative. The order depends
/// only on the graph and the order of `roots`.
std::vector<Node> topological_order(std::span<const Node> roots);

/// The same node with other sources (same count); returns `node` itself if nothing differs.
Node with_srcs(const Node& node, std::span<const Node> srcs);

struct NodeHash {
  size_t operator()(const Node& node) const { return std::hash<const void*>()(node.id()); }
};

}  // namespace tenon
