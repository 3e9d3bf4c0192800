"""Which reader understands which architecture.

Names are those of the engine's registry (vllm/model_executor/models/registry.py, 0.32.0). What is
not in these tables is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable

from parkade.sizing.architecture import (
    attention,
    drafts,
    hybrids,
    linear,
    mamba,
    mla,
    older,
    uneven,
)
from parkade.sizing.architecture.common import Family
from parkade.sizing.architecture.fields import Fields

Reader = Callable[[Fields, str], Family]


def _names(text: str) -> list[str]:
    return text.split()


# Attention on every layer, with the window rules of `windows`.
_DENSE = _names("""
AfmoeForCausalLM ApertusForCausalLM AquilaForCausalLM AquilaModel ArceeForCausalLM
BaiChuanForCausalLM BaichuanForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM
Cohere2ForCausalLM Cohere2MoeForCausalLM CohereForCausalLM CwmForCausalLM DeepseekForCausalLM
Dots1ForCausalLM Ernie4_5_MoeForCausalLM Ernie4_5ForCausalLM Exaone4ForCausalLM ExaoneForCausalLM
FlexOlmoForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM
GemmaForCausalLM Glm4ForCausalLM Glm4MoeForCausalLM GlmForCausalLM
GPTNeoXForCausalLM GptOssForCausalLM GraniteForCausalLM GraniteMoeForCausalLM
GraniteMoeSharedForCausalLM GraniteMoeSWAForCausalLM GraniteSWAForCausalLM Grok1ForCausalLM
Grok1ModelForCausalLM HeliumForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM
HyperCLOVAXForCausalLM HYV3ForCausalLM InternLM2ForCausalLM InternLM3ForCausalLM
InternLMForCausalLM IQuestCoderForCausalLM JAISLMHeadModel LagunaForCausalLM LlamaForCausalLM
LLaMAForCausalLM MellumForCausalLM MiMoForCausalLM MiniCPMForCausalLM MiniMaxM2ForCausalLM
Ministral3ForCausalLM MistralForCausalLM MixtralForCausalLM MolmoForCausalLM NemotronForCausalLM
Olmo2ForCausalLM Olmo3ForCausalLM OlmoeForCausalLM OlmoForCausalLM OrionForCausalLM
Param2MoEForCausalLM Phi3ForCausalLM Phi4MMForCausalLM PhiForCausalLM PhiMoEForCausalLM
QuantMixtralForCausalLM Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM
Rnj1ForCausalLM SarvamMoEForCausalLM SeedOssForCausalLM SmolLM3ForCausalLM SolarForCausalLM
StableLMEpochForCausalLM StableLmForCausalLM Starcoder2ForCausalLM Step1ForCausalLM
TeleChat2ForCausalLM TeleChat3ForCausalLM TeleFLMForCausalLM VaultGemmaForCausalLM
XverseForCausalLM
""")

_MLA = _names("""
DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekV32ForCausalLM GlmMoeDsaForCausalLM
AXK1ForCausalLM Glm4MoeLiteForCausalLM MistralLarge3ForCausalLM PanguUltraMoEForCausalLM
""")

# Heads of a drafter that are plain attention.
_DRAFTS = _names("""
LlamaForCausalLMEagle3 EagleLlamaForCausalLM Eagle3LlamaForCausalLM EagleMistralForCausalLM
Eagle3Qwen2_5vlForCausalLM Eagle3Qwen3vlForCausalLM Eagle3Qwen3ForCausalLM EagleCohereForCausalLM
Eagle3MiniMaxM2ForCausalLM PEagleDraftModel PeagleLlamaForCausalLM PeagleQwen3ForCausalLM
EagleMiniCPMForCausalLM Qwen3DSparkModel
""")

# Wrappers whose file is flat; their language models keep every token.
_FLAT_WRAPPERS = _names("""
IsaacForConditionalGeneration KeyeForConditionalGeneration KeyeVL1_5ForConditionalGeneration
MiniCPMO MiniCPMV MoonshotKimiaForCausalLM
""")

ARCHITECTURES: dict[str, Reader] = {
    **dict.fromkeys(_DENSE, attention.dense),
    **dict.fromkeys(_DRAFTS, drafts.eagle),
    **dict.fromkeys(_MLA, mla.deepseek),
    "BloomForCausalLM": older.bloom,
    "ChatGLMForConditionalGeneration": older.chatglm,
    "ChatGLMModel": older.chatglm,
    "DbrxForCausalLM": older.dbrx,
    "FalconForCausalLM": older.falcon,
    "GLM4VForCausalLM": older.chatglm,
    "GPT2LMHeadModel": older.multi_head,
    "GPTJForCausalLM": older.multi_head,
    "OPTForCausalLM": older.multi_head,
    "GPTBigCodeForCausalLM": older.gpt_bigcode,
    "IQuestLoopCoderForCausalLM": older.loop_coder,
    "MiniCPM3ForCausalLM": older.minicpm3,
    "PanguEmbeddedForCausalLM": older.pangu_embedded,
    "RWForCausalLM": older.falcon,
    "Step3TextForCausalLM": older.step3_text,
    "Exaone4_5_ForCausalLM": uneven.exaone_with_mtp,
    "ExaoneMoEForCausalLM": uneven.exaone_with_mtp,
    "ExaoneMoeForCausalLM": uneven.exaone_with_mtp,
    "DeciLMForCausalLM": uneven.nemotron_nas,
    **dict.fromkeys(_FLAT_WRAPPERS, attention.unwindowed),
    "MiniMaxM3SparseForCausalLM": uneven.minimax_m3,
    "Step3p5ForCausalLM": uneven.step3p5,
    "Gemma3nForCausalLM": attention.gemma3n,
    "Gemma4ForCausalLM": attention.gemma4,
    "Llama4ForCausalLM": attention.llama4,
    "MiMoV2FlashForCausalLM": uneven.mimo_v2,
    "MiMoV2ForCausalLM": uneven.mimo_v2,
    "Qwen3NextForCausalLM": hybrids.gated_delta_net,
    "Qwen3_5ForCausalLM": hybrids.gated_delta_net,
    "Qwen3_5MoeForCausalLM": hybrids.gated_delta_net,
    "OlmoHybridForCausalLM": hybrids.gated_delta_net,
    "BambaForCausalLM": mamba.bamba,
    "FalconH1ForCausalLM": mamba.falcon_h1,
    "FalconMambaForCausalLM": mamba.mamba1,
    "GraniteMoeHybridForCausalLM": mamba.granite_hybrid,
    "JambaForCausalLM": mamba.jamba,
    "Lfm2ForCausalLM": mamba.lfm2,
    "Lfm2MoeForCausalLM": mamba.lfm2,
    "MambaForCausalLM": mamba.mamba1,
    "Mamba2ForCausalLM": mamba.mamba2,
    "NemotronHForCausalLM": mamba.nemotron_h,
    "NemotronHPuzzleForCausalLM": mamba.nemotron_h,
    "Plamo2ForCausalLM": mamba.plamo2,
    "Zamba2ForCausalLM": mamba.zamba2,
    "BailingMoeV2_5ForCausalLM": linear.bailing_linear,
    "KimiLinearForCausalLM": linear.kimi_linear,
    "MiniMaxForCausalLM": linear.minimax_text,
    "MiniMaxM1ForCausalLM": linear.minimax_text,
    "MiniMaxText01ForCausalLM": linear.minimax_text,
    "LongcatFlashForCausalLM": mla.longcat,
    "LongcatFlashNgramForCausalLM": mla.longcat,
    "DFlashDraftModel": drafts.dflash,
    "EagleDeepSeekMTPModel": mla.deepseek,
    "EagleLlama4ForCausalLM": attention.llama4,
    "EagleMistralLarge3ForCausalLM": mla.deepseek,
    "Eagle3DeepseekV2ForCausalLM": mla.deepseek,
    "Eagle3DeepseekV3ForCausalLM": mla.deepseek,
    "Gemma4AssistantForCausalLM": drafts.shared_with_target,
}
