// The structure of programs: parameters, loops, memory, kernels. Includes all other families.
#ifndef QUERN_IR_OPS
#define QUERN_IR_OPS

include "ir/AttentionOps.td"
include "ir/ShapeOps.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Quern_ParamOp : Quern_Op<"param", [Pure]> {
  let summary = "a tensor of the checkpoint";
  let description = [{
    `paths`: for each iteration of the enclosing repeats (outermost slowest; one entry outside of loops) the list of full
    names under which the tensor may be stored, the first preferred. A name may hold `{E}`, a dimension's label: then
    one tensor is stored for each position of E, and E is among the leading dimensions of the result. The other
    dimensions are in the order of storage.
  }];
  let arguments = (ins ArrayAttr:$paths, OptionalAttr<Quern_InitAttr>:$init);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$paths (`init` $init^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Labels of the dimensions that names are stacked over, in their order within the names.
    ::llvm::SmallVector<std::string> getStacked();
    unsigned getIterations() { return getPaths().size(); }
  }];
}

def Quern_RepeatOp : Quern_Op<"repeat", [RecursiveMemoryEffects, SingleBlock, AttrSizedOperandSegments]> {
  let summary = "the body `iterations` times; values carried from iteration to iteration, values of each iteration read from and put on stacks";
  let description = [{
    `quern.repeat 12 reversed carry (%x = %init) : types over (%s = %stack) : types gives types { ... quern.yield %x', %y }`

    A stack's first dimension counts the iterations. The body's arguments are the carried values, then this iteration's part of each
    stack; it yields the carried values, then this iteration's part of each stack that the loop gives. Results: the carried
    values, then the stacks given. `reversed`: from the last iteration to the first; an iteration keeps its number, so parameters and
    parts of stacks are those of the same iteration of a loop that runs forwards. `rows N` in the place of the iterations: chunks of at
    most so many rows of the stacks (ir/Chunk.h); `iterations` is 1 then and means nothing.
  }];
  let arguments = (ins Variadic<Quern_TensorType>:$inits, Variadic<Quern_TensorType>:$stacks, I64Attr:$iterations,
                       UnitAttr:$reversed, OptionalAttr<I64Attr>:$rows);
  let results = (outs Variadic<Quern_TensorType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$types, "::mlir::ValueRange":$inits, "uint64_t":$iterations)>];
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    YieldOp getYield();
    /// How many values are carried: the first of the arguments, of what is yielded and of the results.
    unsigned getCarriedCount() { return getInits().size(); }
    bool isCarried(unsigned i) { return i < getCarriedCount(); }
    /// `part` with a leading dimension for the iterations.
    static ::quern::ir::NamedTensorType stackOf(::quern::ir::NamedTensorType part, ::quern::ir::DimAttr iterations);
    /// What one iteration has of a stack.
    static ::quern::ir::NamedTensorType partOf(::quern::ir::NamedTensorType stack);
  }];
}
def Quern_YieldOp : Quern_Op<"yield", [Pure, Terminator, ReturnLike]> {
  let summary = "what a body hands on";
  let arguments = (ins Variadic<Quern_TensorType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

def Quern_StateOp : Quern_Op<"state", [Symbol]> {
  let summary = "memory that lives from step to step: a cache (with a dimension of size `cap`) or a running sum";
  let description = [{
    The first dimension counts the iterations of the loop that uses it (absent outside of loops). With `check` it is no memory:
    a true value that is stored there ends the call with that message.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Quern_TensorType>:$type, StrAttr:$function,
                       OptionalAttr<StrAttr>:$check);
  let assemblyFormat = "$sym_name `of` $function `:` $type (`check` $check^)? attr-dict";
}
def Quern_RememberOp : Quern_Pure<"remember", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "writes the new rows of x (along `from`) into a cache and gives all rows so far, along `to`";
  let description = "Row i of x is position past + i; the result has positions 0 .. past + T - 1.";
  let arguments = (ins Quern_TensorType:$x, Quern_Label:$from, Quern_DimAttr:$to, FlatSymbolRefAttr:$state);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$x custom<Label>($from) `to` $to `in` $state attr-dict `:` functional-type($x, $result)";
}

def Quern_RecallOp : Quern_Op<"recall", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what a state holds: zeros before the first step";
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs Quern_TensorType:$result);
  let assemblyFormat = "$state attr-dict `:` type($result)";
}
def Quern_StoreOp : Quern_Op<"store", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the new value of a state";
  let arguments = (ins Quern_TensorType:$x, FlatSymbolRefAttr:$state);
  let assemblyFormat = "$x `in` $state attr-dict `:` type($x)";
}

def Quern_KernelOp : Quern_Op<"kernel", [IsolatedFromAbove, Symbol, SingleBlock]> {
  let summary = "a fusion group: compiled by Halide to one function";
  let description = [{
    Block arguments are buffers; `quern.yield` names the results, which are buffers too. `arg_layouts` and
    `result_layouts` say how they are laid out in memory; `in_place` is the argument whose memory the only result takes over. Names of dimensions (d0, d1 ...) and run-time symbols (s0, s1 ...) are
    canonical, so that equal kernels have equal text.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypedArrayAttrBase<Quern_LayoutAttr, "layouts">:$arg_layouts,
                       TypedArrayAttrBase<Quern_LayoutAttr, "layouts">:$result_layouts,
                       OptionalAttr<I64Attr>:$in_place);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
    YieldOp getYield();
    /// Run-time symbols of all types and sizes, sorted: the leading int32 arguments of the C function.
    ::llvm::SmallVector<std::string> getSymbols();
  }];
}
def Quern_LaunchOp : Quern_Op<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel";
  let description = [{
    Types of operands and results are those of the caller: the same ranks, sizes and kinds as the kernel's, with the
    caller's names. `symbols`: for each run-time symbol of the kernel (in the order of `getSymbols`) its size for the
    caller. `once`: only in the
    first call of a request.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Quern_TensorType>:$inputs, StrArrayAttr:$symbols, UnitAttr:$once);
  let results = (outs Variadic<Quern_TensorType>:$results);
  let assemblyFormat = "(`once` $once^)? $kernel $symbols `(` $inputs `)` attr-dict `:` functional-type($inputs, $results)";
}
#endif
