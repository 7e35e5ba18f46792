// OpenBLAS as a peer: f32 matrix products. Only this file includes it. SPDX-License-Identifier: MIT

#include <cblas.h>

#include "bench/peer.h"

namespace tenon::bench {
namespace {

class OpenBlas final : public Peer {
 public:
  explicit OpenBlas(int num_threads) { openblas_set_num_threads(num_threads); }

  std::string name() const override { return "openblas"; }

  std::string description() const override {
    return std::string(openblas_get_config()) + ", kernel " + openblas_get_corename() + ", " +
           std::to_string(openblas_get_num_threads()) + " threads";
  }

  std::function<void()> prepare(const Job& job) override {
    if (job.kind != JobKind::kMatmul || job.dtype != DType::kF32) return {};
    const auto* const a = static_cast<const float*>(job.a);
    const auto* const b = static_cast<const float*>(job.b);
    auto* const out = static_cast<float*>(job.out);
    const auto m = static_cast<blasint>(job.m);
    const auto n = static_cast<blasint>(job.n);
    const auto k = static_cast<blasint>(job.k);
    const blasint lda = job.a_is_transposed ? m : k;
    const CBLAS_TRANSPOSE op_a = job.a_is_transposed ? CblasTrans : CblasNoTrans;
    if (n == 1 && job.batch == 1) {
      return [=] {
        cblas_sgemv(CblasRowMajor, op_a, job.a_is_transposed ? k : m, lda, 1, a, lda, b, 1, 0, out,
                    1);
      };
    }
    const blasint ldb = job.b_is_transposed ? k : n;
    const CBLAS_TRANSPOSE op_b = job.b_is_transposed ? CblasTrans : CblasNoTrans;
    // This version has no batched call.
    return [=] {
      for (int64_t i = 0; i < job.batch; ++i) {
        cblas_sgemm(CblasRowMajor, op_a, op_b, m, n, k, 1, a + i * job.m * job.k, lda,
                    b + i * job.k * job.n, ldb, 0, out + i * job.m * job.n, n);
      }
    };
  }
};

}  // namespace
}  // namespace tenon::bench

extern "C" tenon::bench::Peer* tenon_make_peer(int num_threads) {
  return new tenon::bench::OpenBlas(num_threads);
}
