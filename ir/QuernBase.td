// The dialect, its one type and its attributes.
#ifndef QUERN_IR_BASE
#define QUERN_IR_BASE

include "ir/Interfaces.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Quern_Dialect : Dialect {
  let name = "quern";
  let cppNamespace = "::quern::ir";
  let summary = "Transformers as algebra over named dimensions";
  let description = [{
    Values are tensors whose dimensions have names; every operation aligns its operands by name. There are no axis
    numbers, no transposes and no broadcasting rules. Weights are never in the IR: `quern.param` names them.
  }];
  let hasConstantMaterializer = 1;
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  // Discardable attributes (ir/Attributes.h): each is known, stands where it belongs and has its form.
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

class Quern_Attr<string name, string mnemonicText> : AttrDef<Quern_Dialect, name> { let mnemonic = mnemonicText; }

def Quern_DimAttr : Quern_Attr<"Dim", "dim"> {
  let summary = "a dimension: a name and a size";
  let description = [{
    The size is a polynomial over run-time symbols (ir/Size.h): `#quern.dim<D = 768>`,
    `#quern.dim<T>` (its size is the symbol T), `#quern.dim<S = T>`, `#quern.dim<N = "past + T">`.
  }];
  let parameters = (ins StringRefParameter<"the name">:$name,
                        AttrParameter<"::quern::ir::Size", "its length", "const ::quern::ir::Size &">:$size);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The canonical text of the size.
    std::string getSizeText() const { return getSize().str(); }
    /// The size where it is fixed, else nothing.
    std::optional<int64_t> getStatic() const { return getSize().constant(); }
  }];
}

def Quern_DimArrayAttr : TypedArrayAttrBase<Quern_DimAttr, "dimensions">;

def Quern_LabelAttr : Quern_Attr<"Label", "label"> {
  let summary = "the name of a dimension: `#quern.label<T>`";
  let description = "Whatever renames dimensions looks for these and for #quern.dim, and for nothing else.";
  let parameters = (ins StringRefParameter<"the name">:$name);
  let hasCustomAssemblyFormat = 1;
}
// As an argument of an operation: a StringRef in C++, `"T"` in its text.
def Quern_Label : Attr<CPred<"::llvm::isa<::quern::ir::LabelAttr>($_self)">, "the name of a dimension"> {
  let storageType = "::quern::ir::LabelAttr";
  let returnType = "::llvm::StringRef";
  let convertFromStorage = "$_self.getName()";
  let constBuilderCall = "::quern::ir::LabelAttr::get($_builder.getContext(), $0)";
}
def Quern_Labels : TypedArrayAttrBase<Quern_Label, "names of dimensions">;

def Quern_Role : I32EnumAttr<"Role", "which form of a function of the spec another function is", [
  I32EnumAttrCase<"DefaultValue", 0, "default">, I32EnumAttrCase<"Last", 1, "last">, I32EnumAttrCase<"Step", 2, "step">,
  I32EnumAttrCase<"Ragged", 3, "ragged">, I32EnumAttrCase<"RaggedStep", 4, "ragged_step">, I32EnumAttrCase<"Epoch", 5, "epoch">,
  I32EnumAttrCase<"Gradient", 6, "gradient">, I32EnumAttrCase<"Update", 7, "update">]> {
  let cppNamespace = "::quern::ir";
  let genSpecializedAttr = 0;
}

def Quern_RoleAttr : Quern_Attr<"Role", "role"> {
  let summary = "what a function is that the compiler derives: `#quern.role<last, @forward>`";
  let description = [{
    `of`: the function that it is derived from. `default`: the value of an argument of it that is left out; `last`: prefill
    and decode; `step`: the same for few rows; `ragged`, `ragged_step`: the same for texts of different lengths; `epoch`:
    comparisons of lengths on which what is remembered depends; `gradient`: its value and all gradients. `update` (of
    nothing): the update of a parameter.
  }];
  let parameters = (ins EnumParameter<Quern_Role>:$form, OptionalParameter<"::mlir::FlatSymbolRefAttr">:$of);
  let assemblyFormat = "`<` $form (`,` $of^)? `>`";
  let genVerifyDecl = 1;
}

def Quern_PlaceKind : I32EnumAttr<"PlaceKind", "which memory a buffer is in", [
  I32EnumAttrCase<"Arena", 0, "arena">, I32EnumAttrCase<"Kept", 1, "kept">, I32EnumAttrCase<"Output", 2, "output">,
  I32EnumAttrCase<"Part", 3, "part">, I32EnumAttrCase<"Rows", 4, "rows">,
  I32EnumAttrCase<"State", 5, "state">]> {
  let cppNamespace = "::quern::ir";
  let genSpecializedAttr = 0;
}

def Quern_PlaceAttr : Quern_Attr<"Place", "place"> {
  let summary = "where a result is written: `#quern.place<arena 3>`";
  let description = [{
    `arena N`: a slot of the function's arena (`quern.arena`). `kept N`: memory that lives from call to call
    (`quern.kept`). `output N`: the function's result. `part N`: this iteration's part of the loop's result N. `rows`: the
    new rows of the cache that remembers them. `state`: the state that the result is stored to.
  }];
  let parameters = (ins EnumParameter<Quern_PlaceKind>:$kind, DefaultValuedParameter<"unsigned", "0">:$index);
  let hasCustomAssemblyFormat = 1;
}
def Quern_WindowAttr : Quern_Attr<"Window", "window"> {
  let summary = "how many positions back a value is looked at, its own included: `#quern.window<256>`";
  let parameters = (ins "int64_t":$positions);
  let assemblyFormat = "`<` $positions `>`";
  let genVerifyDecl = 1;
}

def Quern_InitAttr : Quern_Attr<"Init", "init"> {
  let summary = "how a parameter starts when training from nothing";
  let description = "`if_absent`: also what it is where the checkpoint has none; then it is zeros or ones.";
  let parameters = (ins StringRefParameter<"normal, uniform, zeros or ones">:$distribution, "::mlir::FloatAttr":$scale,
                        DefaultValuedParameter<"bool", "false">:$if_absent);
  let assemblyFormat = "`<` $distribution `,` $scale (`,` `if_absent` `=` $if_absent^)? `>`";
  let genVerifyDecl = 1;
}

def Quern_LayoutAttr : Quern_Attr<"Layout", "layout"> {
  let summary = "how a kernel's argument or result is laid out in memory";
  let description = [{
    `#quern.layout<"strided", ["64", "_", "1"]>`: one stride (in elements) for each dimension of the type, in order.
    `#quern.layout<"packed", ["_", "_"], tile = 64, dims = ["O", "I"]>`: a weight packed at load to
    [ceil(O / tile)][I][tile], zero padded; the strides (for O and I) say where the stored tensor has its elements.
    With `beside = 2` to [ceil(O / tile)][I / 2][tile][2]: two neighbours along I are one word, as processors multiply bf16.
    Dimensions of the type before these two are stacked: one packed matrix after the other.
  }];
  let parameters = (ins StringRefParameter<"strided or packed">:$form, OptionalArrayRefParameter<"::mlir::StringAttr">:$strides,
                        DefaultValuedParameter<"int64_t", "0">:$tile, OptionalArrayRefParameter<"::mlir::StringAttr">:$dims,
                        DefaultValuedParameter<"int64_t", "1">:$beside);
  let assemblyFormat = "`<` $form (`,` `[` $strides^ `]`)? (`,` `tile` `=` $tile^)? (`,` `dims` `=` `[` $dims^ `]`)? (`,` `beside` `=` $beside^)? `>`";
  let extraClassDeclaration = [{
    bool isPacked() const { return getForm() == "packed"; }
    ::quern::ir::Size getStride(unsigned i) const;
  }];
}

def Quern_TensorType : TypeDef<Quern_Dialect, "Tensor"> {
  let mnemonic = "tensor";
  let cppClassName = "NamedTensorType";
  let summary = "a tensor with named dimensions";
  let description = [{
    `!quern.tensor<real[B, T, D = 768]>`. The dimensions are a set as far as meaning goes; their order is the order of
    storage, the last innermost. A tensor has a kind (real, int, bool) and a storage (support/Storage.h), of which the
    kind follows. The text says the kind where the storage is the one that is computed with (f32, int32, uint8), else the
    storage: bf16, f16, int8, int4, q4_k, q5_k, q6_k, q8_k, q4_1, q5_1 and q4_z are reals in fewer bits. Nothing computes with bf16: operations that move or pick values
    take it, `narrow` makes it of f32, `widen` gives f32. i8 is an int of one byte: `narrow` makes it of int, `rescale` gives f32. int8 and int4 are codes, of which groups of 32 along one dimension
    share a scale, q4_k to q4_z codes in super-blocks (support/CodedGroups.h): `quantize` makes them, `dequantize`
    gives f32, and rows of them may be gathered.
  }];
  let parameters = (ins "::quern::ir::Storage":$storage, ArrayRefParameter<"::quern::ir::DimAttr">:$dims);
  let builders = [
    TypeBuilder<(ins "::quern::ir::Kind":$kind, "::llvm::ArrayRef<::quern::ir::DimAttr>":$dims), [{
      return $_get($_ctxt, ::quern::support::storageOf(kind), dims);
    }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    unsigned getRank() const { return getDims().size(); }
    /// Position of a name, or -1.
    int find(::llvm::StringRef name) const;
    bool has(::llvm::StringRef name) const { return find(name) >= 0; }
    ::quern::ir::DimAttr dim(::llvm::StringRef name) const;
    /// All sizes multiplied.
    ::quern::ir::Size elements() const;
    /// Equal but for the order of dimensions.
    bool sameSet(NamedTensorType other) const;
    NamedTensorType withStorage(::quern::ir::Storage storage) const;
    /// In the storage that values of the kind are computed with.
    NamedTensorType withKind(::quern::ir::Kind kind) const;
    NamedTensorType withDims(::llvm::ArrayRef<::quern::ir::DimAttr> dims) const;
    ::quern::ir::Kind getKind() const { return ::quern::support::kindOf(getStorage()); }
    /// However it is stored.
    bool isReal() const { return getKind() == ::quern::ir::Kind::Real; }
    bool isInt() const { return getKind() == ::quern::ir::Kind::Int; }
    bool isBool() const { return getKind() == ::quern::ir::Kind::Bool; }
    bool isF32() const { return getStorage() == ::quern::ir::Storage::F32; }
    bool isNarrow() const { return ::quern::support::isNarrow(getStorage()); }
    /// Codes in groups or super-blocks.
    bool isCoded() const { return ::quern::support::bitsOfCode(getStorage()) != 0; }
  }];
}

// Every operation says what it computes, what it costs and how it treats time; the linker misses what one forgets.
class Quern_Op<string mnemonic, list<Trait> traits = []> : Op<Quern_Dialect, mnemonic, !listconcat(traits, [
    DeclareOpInterfaceMethods<Quern_ReferenceOpInterface>, DeclareOpInterfaceMethods<Quern_CostOpInterface>,
    DeclareOpInterfaceMethods<Quern_TimeOpInterface>])>;

#endif
