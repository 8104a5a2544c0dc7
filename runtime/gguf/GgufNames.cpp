// Takes: what a GGUF file calls its tensors. Gives: their names on Hugging Face. Tables alone.
#include "runtime/gguf/GgufNames.h"

#include "runtime/Error.h"

#include <algorithm>

namespace quern::runtime {

namespace {

using enum Change;
using Names = GgufRows<GgufName>;

constexpr GgufName llama[] = {{"token_embd", "model.embed_tokens"},
                              {"output_norm", "model.norm"},
                              {"output", "lm_head"},
                              {".attn_norm", ".input_layernorm"},
                              {".ffn_norm", ".post_attention_layernorm"},
                              {".attn_q", ".self_attn.q_proj"},
                              {".attn_k", ".self_attn.k_proj"},
                              {".attn_v", ".self_attn.v_proj"},
                              {".attn_output", ".self_attn.o_proj"},
                              {".attn_q_norm", ".self_attn.q_norm"},
                              {".attn_k_norm", ".self_attn.k_norm"},
                              {".ffn_gate", ".mlp.gate_proj"},
                              {".ffn_up", ".mlp.up_proj"},
                              {".ffn_down", ".mlp.down_proj"},
                              {".ffn_gate_inp", ".mlp.gate"},
                              {".ffn_gate_exps", ".mlp.experts.{}.gate_proj", Stacked},
                              {".ffn_up_exps", ".mlp.experts.{}.up_proj", Stacked},
                              {".ffn_down_exps", ".mlp.experts.{}.down_proj", Stacked},
                              {".ffn_gate_shexp", ".mlp.shared_experts.gate_proj"},
                              {".ffn_up_shexp", ".mlp.shared_experts.up_proj"},
                              {".ffn_down_shexp", ".mlp.shared_experts.down_proj"},
                              {".exp_probs_b.bias", ".mlp.gate.e_score_correction_bias"}};
constexpr GgufName inPairs[] = {{".attn_q", ".self_attn.q_proj", Pairs}, {".attn_k", ".self_attn.k_proj", KeyPairs}};
constexpr GgufName mixtral[] = {{".ffn_gate_inp", ".block_sparse_moe.gate"},
                                {".ffn_gate_exps", ".block_sparse_moe.experts.{}.w1", Stacked},
                                {".ffn_up_exps", ".block_sparse_moe.experts.{}.w3", Stacked},
                                {".ffn_down_exps", ".block_sparse_moe.experts.{}.w2", Stacked}};
constexpr GgufName minimax[] = {{".exp_probs_b.bias", ".block_sparse_moe.e_score_correction_bias"}};
constexpr GgufName gemma[] = {{"output_norm", "model.norm", PlusOne},
                              {".attn_norm", ".input_layernorm", PlusOne},
                              {".ffn_norm", ".post_attention_layernorm", PlusOne}};
constexpr GgufName gemma2[] = {{"output_norm", "model.norm", PlusOne},
                               {".attn_norm", ".input_layernorm", PlusOne},
                               {".attn_q_norm", ".self_attn.q_norm", PlusOne},
                               {".attn_k_norm", ".self_attn.k_norm", PlusOne},
                               {".post_attention_norm", ".post_attention_layernorm", PlusOne},
                               {".ffn_norm", ".pre_feedforward_layernorm", PlusOne},
                               {".post_ffw_norm", ".post_feedforward_layernorm", PlusOne}};
constexpr GgufName gemma3n[] = {{"per_layer_token_embd", "model.embed_tokens_per_layer"},
                                {"per_layer_model_proj", "model.per_layer_model_projection"},
                                {"per_layer_proj_norm", "model.per_layer_projection_norm"},
                                {"altup_proj", "model.altup_projections.{}", Stacked},
                                {"altup_unembd_proj", "model.altup_unembed_projections.{}", Stacked},
                                {".altup_correct_scale.weight", ".altup.correct_output_scale"},
                                {".altup_correct_coef", ".altup.correction_coefs"},
                                {".altup_predict_coef", ".altup.prediction_coefs"},
                                {".altup_router", ".altup.modality_router"},
                                {".altup_router_norm", ".altup.router_norm"},
                                {".laurel_l", ".laurel.linear_left"},
                                {".laurel_r", ".laurel.linear_right"},
                                {".laurel_post_norm", ".laurel.post_laurel_norm"},
                                {".inp_gate", ".per_layer_input_gate"},
                                {".proj", ".per_layer_projection"},
                                {".post_norm", ".post_per_layer_input_norm"},
                                {".ffn_norm", ".pre_feedforward_layernorm"}};
constexpr GgufName gemma4[] = {{".layer_output_scale.weight", ".layer_scalar"},
                               {".ffn_gate_inp.scale", ".router.scale"},
                               {".ffn_gate_inp", ".router.proj"},
                               {".ffn_down_exps.scale", ".router.per_expert_scale"},
                               {".ffn_down_exps.weight", ".experts.down_proj"},
                               {".ffn_gate_up_exps.weight", ".experts.gate_up_proj"},
                               {".pre_ffw_norm_2", ".pre_feedforward_layernorm_2"},
                               {".post_ffw_norm_1", ".post_feedforward_layernorm_1"},
                               {".post_ffw_norm_2", ".post_feedforward_layernorm_2"}};
/// Dense modules of sentence-transformers, which are in folders of their own.
constexpr GgufName denseModules[] = {{"dense_2", "2_Dense.linear"}, {"dense_3", "3_Dense.linear"}};
constexpr GgufName phi3[] = {{".attn_qkv", ".self_attn.qkv_proj"}, {".ffn_up", ".mlp.gate_up_proj"}};
constexpr GgufName stablelm[] = {{".attn_q_norm", ".self_attn.q_layernorm.norms.{}", Stacked},
                                 {".attn_k_norm", ".self_attn.k_layernorm.norms.{}", Stacked}};
constexpr GgufName starcoder2[] = {{".ffn_up", ".mlp.c_fc"}, {".ffn_down", ".mlp.c_proj"}};
/// Norms of what layers add, not of what they read.
constexpr GgufName normsBehind[] = {{".post_attention_norm", ".post_attention_layernorm"},
                                    {".post_ffw_norm", ".post_feedforward_layernorm"}};
constexpr GgufName qwenExperts[] = {{".post_attention_norm", ".post_attention_layernorm"},
                                    {".ffn_gate_shexp", ".mlp.shared_expert.gate_proj"},
                                    {".ffn_up_shexp", ".mlp.shared_expert.up_proj"},
                                    {".ffn_down_shexp", ".mlp.shared_expert.down_proj"},
                                    {".ffn_gate_inp_shexp", ".mlp.shared_expert_gate", None, Form::Row}};
constexpr GgufName qwen3Next[] = {{"output_norm", "model.norm", PlusOne},
                                  {".attn_norm", ".input_layernorm", PlusOne},
                                  {".post_attention_norm", ".post_attention_layernorm", PlusOne},
                                  {".attn_q_norm", ".self_attn.q_norm", PlusOne},
                                  {".attn_k_norm", ".self_attn.k_norm", PlusOne},
                                  {".ssm_a", ".linear_attn.A_log", MinusExp, Form::Vector},
                                  {".ssm_dt.bias", ".linear_attn.dt_bias"},
                                  {".ssm_ba", ".linear_attn.in_proj_ba"},
                                  {".ssm_conv1d", ".linear_attn.conv1d", None, Form::Channels},
                                  {".ssm_norm", ".linear_attn.norm"},
                                  {".ssm_out", ".linear_attn.out_proj"}};
constexpr GgufName qwen35[] = {{".attn_qkv", ".linear_attn.in_proj_qkv", Tiled},
                               {".attn_gate", ".linear_attn.in_proj_z", Tiled},
                               {".ssm_beta", ".linear_attn.in_proj_b", Tiled},
                               {".ssm_alpha", ".linear_attn.in_proj_a", Tiled},
                               {".ssm_a", ".linear_attn.A_log", TiledMinusExp, Form::Vector},
                               {".ssm_dt.bias", ".linear_attn.dt_bias", Tiled},
                               {".ssm_conv1d", ".linear_attn.conv1d", Tiled, Form::Channels},
                               {".ssm_out", ".linear_attn.out_proj", TiledColumns}};
constexpr GgufName latents[] = {{".attn_q_a", ".self_attn.q_a_proj"},
                                {".attn_q_a_norm", ".self_attn.q_a_layernorm"},
                                {".attn_q_b", ".self_attn.q_b_proj"},
                                {".attn_kv_a_mqa", ".self_attn.kv_a_proj_with_mqa"},
                                {".attn_kv_a_norm", ".self_attn.kv_a_layernorm"},
                                {".attn_kv_b", ".self_attn.kv_b_proj"}};
constexpr GgufName indexer[] = {{".indexer.attn_q_b", ".self_attn.indexer.wq_b"},
                                {".indexer.attn_k", ".self_attn.indexer.wk"},
                                {".indexer.k_norm", ".self_attn.indexer.k_norm"},
                                {".indexer.proj", ".self_attn.indexer.weights_proj"}};
constexpr GgufName kimi[] = {{".ssm_a", ".self_attn.A_log", MinusExp, Form::OfHeads},
                             {".ssm_dt.bias", ".self_attn.dt_bias"},
                             {".ssm_beta", ".self_attn.b_proj"},
                             {".ssm_f_a", ".self_attn.f_a_proj"},
                             {".ssm_f_b", ".self_attn.f_b_proj"},
                             {".ssm_g_a", ".self_attn.g_a_proj"},
                             {".ssm_g_b", ".self_attn.g_b_proj"},
                             {".ssm_conv1d_q", ".self_attn.q_conv1d", None, Form::Channels},
                             {".ssm_conv1d_k", ".self_attn.k_conv1d", None, Form::Channels},
                             {".ssm_conv1d_v", ".self_attn.v_conv1d", None, Form::Channels},
                             {".ssm_norm", ".self_attn.o_norm"},
                             {".ffn_gate_inp", ".block_sparse_moe.gate"},
                             {".exp_probs_b.bias", ".block_sparse_moe.gate.e_score_correction_bias"},
                             {".ffn_gate_exps", ".block_sparse_moe.experts.{}.w1", Stacked},
                             {".ffn_up_exps", ".block_sparse_moe.experts.{}.w3", Stacked},
                             {".ffn_down_exps", ".block_sparse_moe.experts.{}.w2", Stacked},
                             {".ffn_gate_shexp", ".block_sparse_moe.shared_experts.gate_proj"},
                             {".ffn_up_shexp", ".block_sparse_moe.shared_experts.up_proj"},
                             {".ffn_down_shexp", ".block_sparse_moe.shared_experts.down_proj"}};
constexpr GgufName ernie[] = {{".exp_probs_b.bias", ".mlp.moe_statics.e_score_correction_bias", None, Form::Row}};
constexpr GgufName glm4[] = {{".ffn_up", ".mlp.gate_up_proj"},
                             {".post_attention_norm", ".post_self_attn_layernorm"},
                             {".post_ffw_norm", ".post_mlp_layernorm"}};
constexpr GgufName gptOss[] = {{".post_attention_norm", ".post_attention_layernorm"},
                               {".attn_sinks.weight", ".self_attn.sinks"},
                               {".ffn_gate_inp", ".mlp.router"},
                               {".ffn_down_exps.weight", ".mlp.experts.down_proj", Transposed},
                               {".ffn_down_exps.bias", ".mlp.experts.down_proj_bias"}};
constexpr GgufJoin gptOssJoins[] = {
    {".mlp.experts.gate_up_proj", ".ffn_gate_exps.weight", ".ffn_up_exps.weight", GgufJoin::Alternating},
    {".mlp.experts.gate_up_proj_bias", ".ffn_gate_exps.bias", ".ffn_up_exps.bias", GgufJoin::Elements}};
constexpr GgufName llama4[] = {{".ffn_gate", ".feed_forward.gate_proj"},
                               {".ffn_up", ".feed_forward.up_proj"},
                               {".ffn_down", ".feed_forward.down_proj"},
                               {".ffn_gate_inp", ".feed_forward.router"},
                               {".ffn_down_exps.weight", ".feed_forward.experts.down_proj", Transposed},
                               {".ffn_gate_shexp", ".feed_forward.shared_expert.gate_proj"},
                               {".ffn_up_shexp", ".feed_forward.shared_expert.up_proj"},
                               {".ffn_down_shexp", ".feed_forward.shared_expert.down_proj"}};
constexpr GgufJoin llama4Joins[] = {
    {".feed_forward.experts.gate_up_proj", ".ffn_gate_exps.weight", ".ffn_up_exps.weight", GgufJoin::TurnedHalves}};
constexpr GgufJoin latentJoins[] = {
    {".self_attn.kv_b_proj.weight", ".attn_k_b.weight", ".attn_v_b.weight", GgufJoin::KeysAndValues}};
constexpr GgufJoin qwen3NextJoins[] = {
    {".linear_attn.in_proj_qkvz.weight", ".attn_qkv.weight", ".attn_gate.weight", GgufJoin::KeyHeads}};
constexpr GgufName hunyuan[] = {{".attn_q_norm", ".self_attn.query_layernorm"},
                                {".attn_k_norm", ".self_attn.key_layernorm"},
                                {".ffn_gate_inp", ".mlp.gate.wg"},
                                {".ffn_gate_shexp", ".mlp.shared_mlp.gate_proj"},
                                {".ffn_up_shexp", ".mlp.shared_mlp.up_proj"},
                                {".ffn_down_shexp", ".mlp.shared_mlp.down_proj"}};
constexpr GgufName hunyuan3[] = {{".exp_probs_b", ".mlp.expert_bias"}}; // the file has no ending there
constexpr GgufName apertus[] = {{".attn_norm", ".attention_layernorm"}, {".ffn_norm", ".feedforward_layernorm"}};
constexpr GgufName phi[] = {{"output_norm", "model.final_layernorm"},
                            {".attn_output", ".self_attn.dense"},
                            {".ffn_up", ".mlp.fc1"},
                            {".ffn_down", ".mlp.fc2"}};
constexpr GgufName nemotron[] = {{"output_norm.weight", "model.norm.weight", PlusOne},
                                 {".attn_norm.weight", ".input_layernorm.weight", PlusOne},
                                 {".ffn_norm.weight", ".post_attention_layernorm.weight", PlusOne}};
constexpr GgufName lfm2[] = {{"token_embd_norm", "model.embedding_norm"},
                             {"output_norm", "model.embedding_norm"},
                             {".attn_norm", ".operator_norm"},
                             {".ffn_norm", ".ffn_norm"},
                             {".attn_output", ".self_attn.out_proj"},
                             {".attn_q_norm", ".self_attn.q_layernorm"},
                             {".attn_k_norm", ".self_attn.k_layernorm"},
                             {".shortconv.conv.weight", ".conv.conv.weight", None, Form::Channels},
                             {".shortconv.conv.bias", ".conv.conv.bias"},
                             {".shortconv.in_proj", ".conv.in_proj"},
                             {".shortconv.out_proj", ".conv.out_proj"},
                             {".ffn_gate", ".feed_forward.w1"},
                             {".ffn_down", ".feed_forward.w2"},
                             {".ffn_up", ".feed_forward.w3"},
                             {".ffn_gate_inp", ".feed_forward.gate"},
                             {".exp_probs_b.bias", ".feed_forward.expert_bias"},
                             {".ffn_gate_exps", ".feed_forward.experts.{}.w1", Stacked},
                             {".ffn_down_exps", ".feed_forward.experts.{}.w2", Stacked},
                             {".ffn_up_exps", ".feed_forward.experts.{}.w3", Stacked}};

/// A layer's "mamba", whose numbers of heads are vectors in Mamba 2.
constexpr GgufName mamba2InLayers[] = {{".ssm_in", ".mamba.in_proj"},
                                       {".ssm_conv1d.weight", ".mamba.conv1d.weight", None, Form::Channels},
                                       {".ssm_conv1d.bias", ".mamba.conv1d.bias"},
                                       {".ssm_dt.bias", ".mamba.dt_bias"},
                                       {".ssm_a", ".mamba.A_log", MinusExp, Form::Vector},
                                       {".ssm_d", ".mamba.D", None, Form::Vector},
                                       {".ssm_norm", ".mamba.norm", None, Form::Vector},
                                       {".ssm_out", ".mamba.out_proj"}};
constexpr GgufName granite[] = {{".attn_q", ".self_attn.q_proj", Pairs},
                                {".attn_k", ".self_attn.k_proj", KeyPairs},
                                {".ffn_gate_inp", ".block_sparse_moe.router.layer"},
                                {".ffn_down_exps", ".block_sparse_moe.output_linear"},
                                {".ffn_down_shexp", ".shared_mlp.output_linear"}};
constexpr GgufJoin graniteJoins[] = {
    {".block_sparse_moe.input_linear.weight", ".ffn_gate_exps.weight", ".ffn_up_exps.weight", GgufJoin::Halves},
    {".shared_mlp.input_linear.weight", ".ffn_gate_shexp.weight", ".ffn_up_shexp.weight", GgufJoin::Halves}};
/// Granite 4 without experts, and Bamba, which is the same but for names.
constexpr GgufName graniteDense[] = {{".ffn_down", ".shared_mlp.output_linear"}};
constexpr GgufJoin graniteDenseJoins[] = {
    {".shared_mlp.input_linear.weight", ".ffn_gate.weight", ".ffn_up.weight", GgufJoin::Halves}};
constexpr GgufName falconH1[] = {{"output_norm", "model.final_layernorm"},
                                 {".ffn_norm", ".pre_ff_layernorm.weight"}, // the file has no ending there
                                 {".ffn_norm.weight", ".pre_ff_layernorm.weight"},
                                 {".ffn_gate", ".feed_forward.gate_proj"},
                                 {".ffn_up", ".feed_forward.up_proj"},
                                 {".ffn_down", ".feed_forward.down_proj"}};
constexpr GgufName jamba[] = {{"output_norm", "model.final_layernorm"},
                              {".ffn_norm", ".pre_ff_layernorm"},
                              {".ssm_in", ".mamba.in_proj"},
                              {".ssm_conv1d.weight", ".mamba.conv1d.weight", None, Form::Channels},
                              {".ssm_conv1d.bias", ".mamba.conv1d.bias"},
                              {".ssm_x", ".mamba.x_proj"},
                              {".ssm_dt", ".mamba.dt_proj"},
                              {".ssm_dt_norm", ".mamba.dt_layernorm"},
                              {".ssm_b_norm", ".mamba.b_layernorm"},
                              {".ssm_c_norm", ".mamba.c_layernorm"},
                              {".ssm_a", ".mamba.A_log", MinusExp},
                              {".ssm_d", ".mamba.D"},
                              {".ssm_out", ".mamba.out_proj"},
                              {".ffn_gate", ".feed_forward.gate_proj"},
                              {".ffn_up", ".feed_forward.up_proj"},
                              {".ffn_down", ".feed_forward.down_proj"},
                              {".ffn_gate_inp", ".feed_forward.router"},
                              {".ffn_gate_exps", ".feed_forward.experts.{}.gate_proj", Stacked},
                              {".ffn_up_exps", ".feed_forward.experts.{}.up_proj", Stacked},
                              {".ffn_down_exps", ".feed_forward.experts.{}.down_proj", Stacked}};
constexpr GgufName mamba[] = {{"token_embd", "backbone.embeddings"},
                              {"output_norm", "backbone.norm_f"},
                              {"output", "lm_head"},
                              {".attn_norm", ".norm"},
                              {".ssm_in", ".mixer.in_proj"},
                              {".ssm_conv1d.weight", ".mixer.conv1d.weight", None, Form::Channels},
                              {".ssm_conv1d.bias", ".mixer.conv1d.bias"},
                              {".ssm_x", ".mixer.x_proj"},
                              {".ssm_dt", ".mixer.dt_proj"},
                              {".ssm_a", ".mixer.A_log", MinusExp},
                              {".ssm_d", ".mixer.D"},
                              {".ssm_out", ".mixer.out_proj"}};
constexpr GgufName mamba2[] = {{".ssm_dt.bias", ".mixer.dt_bias"},
                               {".ssm_a", ".mixer.A_log", MinusExp, Form::Vector},
                               {".ssm_d", ".mixer.D", None, Form::Vector},
                               {".ssm_norm", ".mixer.norm", None, Form::Vector}};
constexpr GgufName nemotronH[] = {{".attn_q", ".mixer.q_proj"},
                                  {".attn_k", ".mixer.k_proj"},
                                  {".attn_v", ".mixer.v_proj"},
                                  {".attn_output", ".mixer.o_proj"},
                                  {".ffn_up", ".mixer.up_proj"},
                                  {".ffn_down", ".mixer.down_proj"},
                                  {".ffn_gate_inp", ".mixer.gate"},
                                  {".exp_probs_b.bias", ".mixer.gate.e_score_correction_bias"},
                                  {".ffn_up_exps", ".mixer.experts.{}.up_proj", Stacked},
                                  {".ffn_down_exps", ".mixer.experts.{}.down_proj", Stacked},
                                  {".ffn_up_shexp", ".mixer.shared_experts.up_proj"},
                                  {".ffn_down_shexp", ".mixer.shared_experts.down_proj"},
                                  {".ffn_latent_down", ".mixer.fc1_latent_proj"},
                                  {".ffn_latent_up", ".mixer.fc2_latent_proj"}};

constexpr GgufName gpt2[] = {{"token_embd", "transformer.wte"},
                             {"position_embd", "transformer.wpe"},
                             {"output_norm", "transformer.ln_f"},
                             {"output", "lm_head"},
                             {".attn_norm", ".ln_1"},
                             {".attn_qkv", ".attn.c_attn", Transposed},
                             {".attn_output", ".attn.c_proj", Transposed},
                             {".ffn_norm", ".ln_2"},
                             {".ffn_up", ".mlp.c_fc", Transposed},
                             {".ffn_down", ".mlp.c_proj", Transposed}};
constexpr GgufName starcoder[] = {{".attn_qkv", ".attn.c_attn"}, // Linear, not Conv1D
                                  {".attn_output", ".attn.c_proj"},
                                  {".ffn_up", ".mlp.c_fc"},
                                  {".ffn_down", ".mlp.c_proj"}};
constexpr GgufName bloom[] = {{"token_embd", "transformer.word_embeddings"},
                              {"token_embd_norm", "transformer.word_embeddings_layernorm"},
                              {"output_norm", "transformer.ln_f"},
                              {"output", "lm_head"},
                              {".attn_norm", ".input_layernorm"},
                              {".attn_qkv", ".self_attention.query_key_value", Thirds},
                              {".attn_output", ".self_attention.dense"},
                              {".ffn_norm", ".post_attention_layernorm"},
                              {".ffn_up", ".mlp.dense_h_to_4h"},
                              {".ffn_down", ".mlp.dense_4h_to_h"}};
constexpr GgufName falcon[] = {{".attn_qkv", ".self_attention.query_key_value", KeyHeads}};
constexpr GgufName falconTwoNorms[] = {{".attn_norm", ".ln_mlp"}, {".attn_norm_2", ".ln_attn"}};
constexpr GgufName gptNeox[] = {{"token_embd", "gpt_neox.embed_in"},
                                {"output_norm", "gpt_neox.final_layer_norm"},
                                {"output", "embed_out"},
                                {".attn_qkv", ".attention.query_key_value", Thirds},
                                {".attn_output", ".attention.dense"}};
constexpr GgufName mpt[] = {
    {"token_embd", "transformer.wte"}, {"output_norm", "transformer.norm_f"}, {"output", "lm_head"},
    {".attn_norm", ".norm_1"},         {".attn_qkv", ".attn.Wqkv"},           {".attn_output", ".attn.out_proj"},
    {".ffn_norm", ".norm_2"},          {".ffn_up", ".ffn.up_proj"},           {".ffn_down", ".ffn.down_proj"}};
constexpr GgufName bert[] = {{"token_embd", "bert.embeddings.word_embeddings"},
                             {"position_embd", "bert.embeddings.position_embeddings"},
                             {"token_types", "bert.embeddings.token_type_embeddings"},
                             {"token_embd_norm", "bert.embeddings.LayerNorm"},
                             {".attn_q", ".attention.self.query"},
                             {".attn_k", ".attention.self.key"},
                             {".attn_v", ".attention.self.value"},
                             {".attn_output", ".attention.output.dense"},
                             {".attn_output_norm", ".attention.output.LayerNorm"},
                             {".ffn_up", ".intermediate.dense"},
                             {".ffn_down", ".output.dense"},
                             {".layer_output_norm", ".output.LayerNorm"}};
constexpr GgufName modernBert[] = {{"token_embd", "embeddings.tok_embeddings"},
                                   {"token_embd_norm", "embeddings.norm"},
                                   {"output_norm", "final_norm"},
                                   {".attn_norm", ".attn_norm"},
                                   {".attn_qkv", ".attn.Wqkv"},
                                   {".attn_output", ".attn.Wo"},
                                   {".ffn_norm", ".mlp_norm"},
                                   {".ffn_up", ".mlp.Wi"},
                                   {".ffn_down", ".mlp.Wo"}};
constexpr GgufName nomic[] = {{"token_embd", "nomic_bert.embeddings.word_embeddings"},
                              {"token_types", "nomic_bert.embeddings.token_type_embeddings"},
                              {"token_embd_norm", "nomic_bert.emb_ln"},
                              {".attn_qkv", ".attn.Wqkv"},
                              {".attn_output", ".attn.out_proj"},
                              {".attn_output_norm", ".norm1"},
                              {".ffn_gate", ".mlp.fc12"},
                              {".ffn_up", ".mlp.fc11"},
                              {".ffn_down", ".mlp.fc2"},
                              {".layer_output_norm", ".norm2"}};
/// Layers of two stacks, "enc.blk.0" and "dec.blk.0".
constexpr GgufName t5[] = {{"token_embd", "shared"},
                           {"output", "lm_head"},
                           {"enc.output_norm", "encoder.final_layer_norm"},
                           {"enc.attn_norm", ".layer.0.layer_norm"},
                           {"enc.attn_q", ".layer.0.SelfAttention.q"},
                           {"enc.attn_k", ".layer.0.SelfAttention.k"},
                           {"enc.attn_v", ".layer.0.SelfAttention.v"},
                           {"enc.attn_o", ".layer.0.SelfAttention.o"},
                           {"enc.attn_rel_b", ".layer.0.SelfAttention.relative_attention_bias"},
                           {"enc.ffn_norm", ".layer.1.layer_norm"},
                           {"enc.ffn_up", ".layer.1.DenseReluDense.wi"},
                           {"enc.ffn_down", ".layer.1.DenseReluDense.wo"},
                           {"dec.output_norm", "decoder.final_layer_norm"},
                           {"dec.attn_norm", ".layer.0.layer_norm"},
                           {"dec.attn_q", ".layer.0.SelfAttention.q"},
                           {"dec.attn_k", ".layer.0.SelfAttention.k"},
                           {"dec.attn_v", ".layer.0.SelfAttention.v"},
                           {"dec.attn_o", ".layer.0.SelfAttention.o"},
                           {"dec.attn_rel_b", ".layer.0.SelfAttention.relative_attention_bias"},
                           {"dec.cross_attn_norm", ".layer.1.layer_norm"},
                           {"dec.cross_attn_q", ".layer.1.EncDecAttention.q"},
                           {"dec.cross_attn_k", ".layer.1.EncDecAttention.k"},
                           {"dec.cross_attn_v", ".layer.1.EncDecAttention.v"},
                           {"dec.cross_attn_o", ".layer.1.EncDecAttention.o"},
                           {"dec.ffn_norm", ".layer.2.layer_norm"},
                           {"dec.ffn_up", ".layer.2.DenseReluDense.wi"},
                           {"dec.ffn_down", ".layer.2.DenseReluDense.wo"}};
constexpr GgufName t5Gated[] = {{"enc.ffn_gate", ".layer.1.DenseReluDense.wi_0"},
                                {"enc.ffn_up", ".layer.1.DenseReluDense.wi_1"},
                                {"dec.ffn_gate", ".layer.2.DenseReluDense.wi_0"},
                                {"dec.ffn_up", ".layer.2.DenseReluDense.wi_1"}};

constexpr const char *layers = "model.layers.", *blocks = "transformer.h.", *backbone = "backbone.layers.";

const GgufArchitecture architectures[] = {
    {"llama", layers, nullptr, {inPairs, mixtral, llama}, {}},
    {"mistral3", layers, nullptr, {inPairs, llama}, {}},
    {"llama4", layers, nullptr, {llama4, llama}, llama4Joins},
    {"minimax-m2", layers, nullptr, {minimax, mixtral, llama}, {}},
    {"smollm3", layers, nullptr, {inPairs, llama}, {}},
    {"arcee", layers, nullptr, {inPairs, llama}, {}},
    {"jais2", layers, nullptr, {llama}, {}},
    {"olmo", layers, nullptr, {inPairs, llama}, {}},
    {"granite", layers, nullptr, {inPairs, llama}, {}},
    {"granitemoe", layers, nullptr, {granite, llama}, graniteJoins},
    {"granitehybrid", layers, "blk.0.ffn_gate_inp.weight", {granite, mamba2InLayers, llama}, graniteJoins},
    {"granitehybrid", layers, nullptr, {inPairs, graniteDense, mamba2InLayers, llama}, graniteDenseJoins},
    {"qwen2", layers, nullptr, {llama}, {}},
    {"qwen3", layers, nullptr, {llama}, {}},
    {"qwen2moe", layers, nullptr, {qwenExperts, llama}, {}},
    {"qwen3moe", layers, nullptr, {qwenExperts, llama}, {}},
    {"qwen3vlmoe", layers, nullptr, {qwenExperts, llama}, {}},
    {"qwen3next", layers, nullptr, {qwen3Next, qwenExperts, llama}, qwen3NextJoins},
    {"qwen35", layers, nullptr, {qwen35, qwen3Next, llama}, {}},
    {"qwen35moe", layers, nullptr, {qwen35, qwen3Next, qwenExperts, llama}, {}},
    {"mellum", layers, nullptr, {llama}, {}},
    {"olmoe", layers, nullptr, {llama}, {}},
    {"olmo2", layers, nullptr, {normsBehind, llama}, {}},
    {"exaone4", layers, nullptr, {normsBehind, llama}, {}},
    {"seed_oss", layers, nullptr, {normsBehind, llama}, {}},
    {"command-r", layers, nullptr, {llama}, {}},
    {"cohere2", layers, nullptr, {llama}, {}},
    {"gemma", layers, nullptr, {gemma, llama}, {}},
    {"gemma2", layers, nullptr, {gemma2, llama}, {}},
    {"gemma3", layers, nullptr, {gemma2, llama}, {}},
    {"gemma3n", layers, nullptr, {gemma3n, normsBehind, llama}, {}},
    {"gemma4", layers, nullptr, {gemma4, gemma3n, normsBehind, llama}, {}},
    {"gemma-embedding", layers, nullptr, {gemma2, llama, denseModules}, {}},
    {"eurobert", layers, nullptr, {llama}, {}},
    {"phi2", layers, nullptr, {phi, llama}, {}},
    {"phi3", layers, nullptr, {phi3, llama}, {}},
    {"phimoe", layers, nullptr, {mixtral, llama}, {}},
    {"stablelm", layers, nullptr, {stablelm, llama}, {}},
    {"starcoder2", layers, nullptr, {starcoder2, llama}, {}},
    {"nemotron", layers, nullptr, {nemotron, llama}, {}},
    {"apertus", layers, nullptr, {apertus, llama}, {}},
    {"chatglm", layers, nullptr, {glm4, llama}, {}},
    {"glm4", layers, nullptr, {glm4, llama}, {}},
    {"glm4moe", layers, nullptr, {normsBehind, llama}, {}},
    {"dots1", layers, nullptr, {llama}, {}},
    {"exaone-moe", layers, nullptr, {llama}, {}},
    {"hy_v3", layers, nullptr, {hunyuan3, llama}, {}},
    {"ernie4_5", layers, nullptr, {llama}, {}},
    {"ernie4_5-moe", layers, nullptr, {ernie, llama}, {}},
    {"hunyuan-dense", layers, nullptr, {hunyuan, llama}, {}},
    {"hunyuan-moe", layers, nullptr, {hunyuan, llama}, {}},
    {"gpt-oss", layers, nullptr, {gptOss, llama}, gptOssJoins},
    {"deepseek2", layers, nullptr, {latents, llama}, latentJoins},
    {"deepseek32", layers, nullptr, {indexer, latents, llama}, latentJoins},
    {"glm-dsa", layers, nullptr, {indexer, latents, llama}, latentJoins},
    {"kimi-linear", layers, nullptr, {latents, kimi, llama}, latentJoins},
    {"lfm2", layers, nullptr, {lfm2, llama}, {}},
    {"lfm2moe", layers, nullptr, {lfm2, llama}, {}},
    {"falcon-h1", layers, nullptr, {falconH1, mamba2InLayers, llama}, {}},
    {"jamba", layers, nullptr, {jamba, llama}, {}},
    {"mamba", backbone, nullptr, {mamba}, {}},
    {"mamba2", backbone, nullptr, {mamba2, mamba}, {}},
    {"nemotron_h", backbone, nullptr, {nemotronH, mamba2, mamba}, {}},
    {"nemotron_h_moe", backbone, nullptr, {nemotronH, mamba2, mamba}, {}},
    {"gpt2", blocks, nullptr, {gpt2}, {}},
    {"starcoder", blocks, nullptr, {starcoder, gpt2}, {}},
    {"bloom", blocks, nullptr, {bloom}, {}},
    {"falcon", blocks, "blk.0.attn_norm_2.weight", {falconTwoNorms, falcon, bloom}, {}},
    {"falcon", blocks, nullptr, {falcon, bloom}, {}},
    {"gptneox", "gpt_neox.layers.", nullptr, {gptNeox, bloom}, {}},
    {"mpt", "transformer.blocks.", nullptr, {mpt}, {}},
    {"bert", "bert.encoder.layer.", nullptr, {bert}, {}},
    {"modern-bert", "layers.", nullptr, {modernBert}, {}},
    {"nomic-bert", "nomic_bert.encoder.layers.", nullptr, {nomic}, {}},
    {"t5", "", "enc.blk.0.ffn_gate.weight", {t5Gated, t5}, {}},
    {"t5", "", nullptr, {t5}, {}},
};

} // namespace

const GgufArchitecture &namesOf(const GgufFile &file) {
  for (const GgufArchitecture &a : architectures)
    if (file.architecture() == a.name && (!a.where || file.find(a.where)))
      return a;
  std::string known;
  for (const GgufArchitecture &a : architectures)
    if (!a.where)
      known += (known.empty() ? "" : ", ") + std::string(a.name);
  throw UserError(file.file()->name() + " is a model of the architecture " + quote(file.architecture()) +
                  ", whose names are not known here; known are " + known);
}

} // namespace quern::runtime
