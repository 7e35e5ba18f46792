// oneDNN as a peer: matrix products of f32, bf16 and int8, row kernels, convolutions, all on plain
// layouts as a caller has them. Only this file includes it. SPDX-License-Identifier: MIT

#include <omp.h>

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <utility>

#include "bench/peer.h"

namespace tenon::bench {
namespace {

using dnnl::memory;
using Dims = memory::dims;

memory::data_type type_of(DType dtype) {
  if (dtype == DType::kBF16) return memory::data_type::bf16;
  if (dtype == DType::kI8) return memory::data_type::s8;
  if (dtype == DType::kI32) return memory::data_type::s32;
  return memory::data_type::f32;
}

std::string isa_name() {
  const dnnl::cpu_isa used = dnnl::get_effective_cpu_isa();
  for (const auto& [isa, name] : {std::pair(dnnl::cpu_isa::avx2, "avx2"),
                                  std::pair(dnnl::cpu_isa::avx512_core, "avx512_core"),
                                  std::pair(dnnl::cpu_isa::avx512_core_vnni, "avx512_core_vnni"),
                                  std::pair(dnnl::cpu_isa::avx512_core_bf16, "avx512_core_bf16"),
                                  std::pair(dnnl::cpu_isa::avx512_core_amx, "avx512_core_amx")})
    if (isa == used) return name;
  return "isa " + std::to_string(static_cast<int>(used));
}

class OneDnn final : public Peer {
 public:
  explicit OneDnn(int num_threads) : num_threads_(num_threads) {
    omp_set_dynamic(0);
    omp_set_num_threads(num_threads);
  }

  std::string name() const override { return "onednn"; }

  std::string description() const override {
    const dnnl_version_t& version = *dnnl_version();
    return "oneDNN " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
           std::to_string(version.patch) + ", " + isa_name() + ", " + std::to_string(num_threads_) +
           " threads";
  }

  std::function<void()> prepare(const Job& job) override {
    try {
      switch (job.kind) {
        case JobKind::kMatmul: return matmul(job);
        case JobKind::kSoftmax: return softmax(job);
        case JobKind::kLayernorm: return layernorm(job);
        case JobKind::kConv: return convolution(job);
        case JobKind::kNone:
        case JobKind::kTranspose: break;
      }
    } catch (const dnnl::error&) {
      // No implementation for this job and CPU: not offered.
    }
    return {};
  }

 private:
  memory bind(const memory::desc& desc, const void* data) const {
    return {desc, engine_, const_cast<void*>(data)};
  }

  std::function<void()> call(const dnnl::primitive& primitive,
                             std::unordered_map<int, memory> arguments) const {
    return [primitive, arguments = std::move(arguments), stream = stream_]() mutable {
      primitive.execute(stream, arguments);
      stream.wait();
    };
  }

  std::function<void()> matmul(const Job& job) const {
    const auto desc_of = [&](DType dtype, int64_t rows, int64_t columns, bool is_transposed) {
      const Dims strides =
          is_transposed ? Dims{rows * columns, 1, rows} : Dims{rows * columns, columns, 1};
      if (job.batch == 1) {
        return memory::desc({rows, columns}, type_of(dtype), Dims{strides[1], strides[2]});
      }
      return memory::desc({job.batch, rows, columns}, type_of(dtype), strides);
    };
    const memory::desc a = desc_of(job.dtype, job.m, job.k, job.a_is_transposed);
    const memory::desc given_b = desc_of(job.dtype, job.k, job.n, job.b_is_transposed);
    const memory::desc b = job.b_is_constant ? memory::desc({job.k, job.n}, type_of(job.dtype),
                                                            memory::format_tag::any)
                                             : given_b;
    const memory::desc out = desc_of(job.out_dtype, job.m, job.n, false);
    const dnnl::matmul::primitive_desc desc({a, b, out}, engine_);
    memory weights = bind(given_b, job.b);
    if (job.b_is_constant) {
      memory laid_out(desc.weights_desc(), engine_);
      dnnl::stream once = stream_;
      dnnl::reorder(weights, laid_out).execute(once, weights, laid_out);
      once.wait();
      weights = laid_out;
    }
    return call(dnnl::matmul(desc), {{DNNL_ARG_SRC, bind(a, job.a)},
                                     {DNNL_ARG_WEIGHTS, weights},
                                     {DNNL_ARG_DST, bind(out, job.out)}});
  }

  std::function<void()> softmax(const Job& job) const {
    const memory::desc rows({job.m, job.n}, type_of(job.dtype), memory::format_tag::ab);
    const dnnl::softmax_forward::primitive_desc desc({dnnl::prop_kind::forward_inference, rows, 1},
                                                     engine_);
    return call(dnnl::softmax_forward(desc),
                {{DNNL_ARG_SRC, bind(rows, job.a)}, {DNNL_ARG_DST, bind(rows, job.out)}});
  }

  std::function<void()> layernorm(const Job& job) const {
    const memory::desc rows({job.m, job.n}, type_of(job.dtype), memory::format_tag::ab);
    const dnnl::layer_normalization_forward::primitive_desc desc(
        {dnnl::prop_kind::forward_inference, rows, static_cast<float>(job.epsilon),
         dnnl::normalization_flags::none},
        engine_);
    return call(dnnl::layer_normalization_forward(desc),
                {{DNNL_ARG_SRC, bind(rows, job.a)}, {DNNL_ARG_DST, bind(rows, job.out)}});
  }

  std::function<void()> convolution(const Job& job) const {
    const auto type = type_of(job.dtype);
    const auto tag = memory::format_tag::nchw;
    const memory::desc image({job.batch, job.channels, job.height, job.width}, type, tag);
    const int64_t grow = 2 * job.padding - job.size + 1;
    const memory::desc out({job.batch, job.m, job.height + grow, job.width + grow}, type, tag);
    const memory::desc weight = job.groups == 1
                                    ? memory::desc({job.m, job.channels, job.size, job.size}, type,
                                                   memory::format_tag::oihw)
                                    : memory::desc({job.groups, job.m / job.groups,
                                                    job.channels / job.groups, job.size, job.size},
                                                   type, memory::format_tag::goihw);
    const Dims padding{job.padding, job.padding};
    const dnnl::convolution_forward::primitive_desc desc({dnnl::prop_kind::forward_inference,
                                                          dnnl::algorithm::convolution_direct,
                                                          image,
                                                          weight,
                                                          out,
                                                          {1, 1},
                                                          padding,
                                                          padding},
                                                         engine_);
    return call(dnnl::convolution_forward(desc), {{DNNL_ARG_SRC, bind(image, job.a)},
                                                  {DNNL_ARG_WEIGHTS, bind(weight, job.b)},
                                                  {DNNL_ARG_DST, bind(out, job.out)}});
  }

  const int num_threads_;
  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  const dnnl::stream stream_{engine_};
};

}  // namespace
}  // namespace tenon::bench

extern "C" tenon::bench::Peer* tenon_make_peer(int num_threads) {
  return new tenon::bench::OneDnn(num_threads);
}
