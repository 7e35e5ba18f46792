// The part of LLVM 22's C interface that compiles a module, declared here so that neither LLVM's
// headers nor libLLVM are needed to build Tenon: libLLVM.so.22.1 (it comes with clang-22) is opened
// when the first kernel is compiled. Used by llvm_compiler.cpp alone.
// Declarations follow llvm-c/Core.h, Analysis.h, IRReader.h, Target.h, TargetMachine.h, Error.h,
// Support.h and Transforms/PassBuilder.h of LLVM 22.1. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenon::cpu {

// Opaque, LLVM's.
struct LlvmContext;
struct LlvmModule;
struct LlvmValue;
struct LlvmAttribute;
struct LlvmBuffer;
struct LlvmTarget;
struct LlvmTargetMachine;
struct LlvmMachineOptions;
struct LlvmTargetData;
struct LlvmPassOptions;
struct LlvmError;
struct LlvmDiagnostic;

using LlvmDiagnosticHandler = void (*)(LlvmDiagnostic* diagnostic, void* data);

// Values of LLVM's enums.
constexpr int kLlvmObjectFile = 1;                     // LLVMCodeGenFileType
constexpr int kLlvmRelocPic = 2;                       // LLVMRelocMode
constexpr int kLlvmCodeModelSmall = 3;                 // LLVMCodeModel
constexpr int kLlvmCodeGenDefault = 2;                 // LLVMCodeGenOptLevel
constexpr int kLlvmReturnStatus = 2;                   // LLVMVerifierFailureAction
constexpr int kLlvmSeverityError = 0;                  // LLVMDiagnosticSeverity
constexpr unsigned kLlvmFunctionIndex = ~unsigned{0};  // LLVMAttributeFunctionIndex

// clang-format off
#define TENON_LLVM_FUNCTIONS(F) \
  F(get_version, "LLVMGetVersion", void(unsigned*, unsigned*, unsigned*)) \
  F(initialize_target_info, "LLVMInitializeX86TargetInfo", void()) \
  F(initialize_target, "LLVMInitializeX86Target", void()) \
  F(initialize_target_mc, "LLVMInitializeX86TargetMC", void()) \
  F(initialize_asm_printer, "LLVMInitializeX86AsmPrinter", void()) \
  F(parse_options, "LLVMParseCommandLineOptions", void(int, const char* const*, const char*)) \
  F(dispose_message, "LLVMDisposeMessage", void(char*)) \
  F(create_context, "LLVMContextCreate", LlvmContext*()) \
  F(dispose_context, "LLVMContextDispose", void(LlvmContext*)) \
  F(set_diagnostic_handler, "LLVMContextSetDiagnosticHandler", void(LlvmContext*, LlvmDiagnosticHandler, void*)) \
  F(get_severity, "LLVMGetDiagInfoSeverity", int(LlvmDiagnostic*)) \
  F(get_description, "LLVMGetDiagInfoDescription", char*(LlvmDiagnostic*)) \
  F(create_buffer, "LLVMCreateMemoryBufferWithMemoryRangeCopy", LlvmBuffer*(const char*, size_t, const char*)) \
  F(get_buffer_start, "LLVMGetBufferStart", const char*(LlvmBuffer*)) \
  F(get_buffer_size, "LLVMGetBufferSize", size_t(LlvmBuffer*)) \
  F(dispose_buffer, "LLVMDisposeMemoryBuffer", void(LlvmBuffer*)) \
  F(parse_ir, "LLVMParseIRInContext", int(LlvmContext*, LlvmBuffer*, LlvmModule**, char**)) \
  F(verify, "LLVMVerifyModule", int(LlvmModule*, int, char**)) \
  F(dispose_module, "LLVMDisposeModule", void(LlvmModule*)) \
  F(set_triple, "LLVMSetTarget", void(LlvmModule*, const char*)) \
  F(set_data_layout, "LLVMSetModuleDataLayout", void(LlvmModule*, LlvmTargetData*)) \
  F(get_first_function, "LLVMGetFirstFunction", LlvmValue*(LlvmModule*)) \
  F(get_next_function, "LLVMGetNextFunction", LlvmValue*(LlvmValue*)) \
  F(find_attribute_kind, "LLVMGetEnumAttributeKindForName", unsigned(const char*, size_t)) \
  F(create_attribute, "LLVMCreateEnumAttribute", LlvmAttribute*(LlvmContext*, unsigned, uint64_t)) \
  F(add_attribute, "LLVMAddAttributeAtIndex", void(LlvmValue*, unsigned, LlvmAttribute*)) \
  F(find_target, "LLVMGetTargetFromTriple", int(const char*, LlvmTarget**, char**)) \
  F(create_machine_options, "LLVMCreateTargetMachineOptions", LlvmMachineOptions*()) \
  F(dispose_machine_options, "LLVMDisposeTargetMachineOptions", void(LlvmMachineOptions*)) \
  F(set_cpu, "LLVMTargetMachineOptionsSetCPU", void(LlvmMachineOptions*, const char*)) \
  F(set_features, "LLVMTargetMachineOptionsSetFeatures", void(LlvmMachineOptions*, const char*)) \
  F(set_code_gen_level, "LLVMTargetMachineOptionsSetCodeGenOptLevel", void(LlvmMachineOptions*, int)) \
  F(set_reloc_mode, "LLVMTargetMachineOptionsSetRelocMode", void(LlvmMachineOptions*, int)) \
  F(set_code_model, "LLVMTargetMachineOptionsSetCodeModel", void(LlvmMachineOptions*, int)) \
  F(create_machine, "LLVMCreateTargetMachineWithOptions", LlvmTargetMachine*(LlvmTarget*, const char*, LlvmMachineOptions*)) \
  F(dispose_machine, "LLVMDisposeTargetMachine", void(LlvmTargetMachine*)) \
  F(create_target_data, "LLVMCreateTargetDataLayout", LlvmTargetData*(LlvmTargetMachine*)) \
  F(dispose_target_data, "LLVMDisposeTargetData", void(LlvmTargetData*)) \
  F(create_pass_options, "LLVMCreatePassBuilderOptions", LlvmPassOptions*()) \
  F(dispose_pass_options, "LLVMDisposePassBuilderOptions", void(LlvmPassOptions*)) \
  F(run_passes, "LLVMRunPasses", LlvmError*(LlvmModule*, const char*, LlvmTargetMachine*, LlvmPassOptions*)) \
  F(get_error_message, "LLVMGetErrorMessage", char*(LlvmError*)) \
  F(dispose_error_message, "LLVMDisposeErrorMessage", void(char*)) \
  F(emit, "LLVMTargetMachineEmitToMemoryBuffer", int(LlvmTargetMachine*, LlvmModule*, int, char**, LlvmBuffer**))
// clang-format on

/// libLLVM's functions; stays open until the process ends.
struct LlvmApi {
  std::string version;  ///< "22.1.8"
#define TENON_LLVM_FUNCTION(member, symbol, signature) \
  using member##_type = signature;                     \
  member##_type* member = nullptr;
  TENON_LLVM_FUNCTIONS(TENON_LLVM_FUNCTION)
#undef TENON_LLVM_FUNCTION
};

}  // namespace tenon::cpu
