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

# Language models of wrappers that carry an image, video or audio tower: the text configuration's
# own `model_type` says which reader understands it.
WRAPPERS = frozenset(
    _names("""
AriaForConditionalGeneration AudioFlamingo3ForConditionalGeneration
AyaVisionForConditionalGeneration BagelForConditionalGeneration BeeForConditionalGeneration
Cohere2VisionForConditionalGeneration DeepseekOCR2ForCausalLM DeepseekOCRForCausalLM
DeepseekVLV2ForCausalLM DotsOCRForCausalLM Eagle2_5_VLForConditionalGeneration
Ernie4_5_VLMoeForConditionalGeneration Exaone4_5_ForConditionalGeneration
Gemma3ForConditionalGeneration Gemma3nForConditionalGeneration Gemma4ForConditionalGeneration
Gemma4UnifiedForConditionalGeneration Glm4vForConditionalGeneration
Glm4vMoeForConditionalGeneration GlmAsrForConditionalGeneration GlmOcrForConditionalGeneration
Granite4VisionForConditionalGeneration GraniteSpeechForConditionalGeneration
GraniteSpeechPlusForConditionalGeneration H2OVLChatModel HCXVisionV2ForCausalLM
Idefics3ForConditionalGeneration InternS1ForConditionalGeneration
InternS1ProForConditionalGeneration InternVLChatModel InternVLForConditionalGeneration
KananaVForConditionalGeneration KimiK25ForConditionalGeneration KimiK3ForConditionalGeneration
KimiVLForConditionalGeneration Lfm2VlForConditionalGeneration LightOnOCRForConditionalGeneration
Llama4ForConditionalGeneration Llama_Nemotron_Nano_VL LlavaForConditionalGeneration
LlavaNextForConditionalGeneration LlavaNextVideoForConditionalGeneration
LlavaOnevision2ForConditionalGeneration LlavaOnevisionForConditionalGeneration MiDashengLMModel
MiniMaxM3SparseForConditionalGeneration MiniMaxVL01ForConditionalGeneration
Mistral3ForConditionalGeneration Molmo2ForConditionalGeneration NemotronH_Nano_Omni_Reasoning_V3
NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3 NemotronH_Super_Omni_Reasoning_V3 NVLM_D
OpenCUAForConditionalGeneration OpenPanguVLForConditionalGeneration Ovis Ovis2_5
Ovis2_6_MoeForCausalLM Ovis2_6ForCausalLM PaddleOCRVLForConditionalGeneration
PaliGemmaForConditionalGeneration Phi3VForCausalLM PixtralForConditionalGeneration
QianfanOCRForConditionalGeneration Qwen2_5_VLForConditionalGeneration
Qwen2_5OmniForConditionalGeneration Qwen2_5OmniModel Qwen2AudioForConditionalGeneration
Qwen2VLForConditionalGeneration Qwen3_5ForConditionalGeneration Qwen3_5MoeForConditionalGeneration
Qwen3ASRForConditionalGeneration Qwen3OmniMoeForConditionalGeneration
Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration SkyworkR1VChatModel
SmolVLMForConditionalGeneration Step3p7ForConditionalGeneration Step3VLForConditionalGeneration
StepVLForConditionalGeneration UltravoxModel VoxtralForConditionalGeneration
""")
)

# The `model_type` of a text configuration and the architecture that the engine runs for it.
MODEL_TYPES: dict[str, str] = {
    "afmoe": "AfmoeForCausalLM",
    "apertus": "ApertusForCausalLM",
    "arcee": "ArceeForCausalLM",
    "cohere": "CohereForCausalLM",
    "cohere2": "Cohere2ForCausalLM",
    "cohere2_moe": "Cohere2MoeForCausalLM",
    "bloom": "BloomForCausalLM",
    "chatglm": "ChatGLMModel",
    "cwm": "CwmForCausalLM",
    "dbrx": "DbrxForCausalLM",
    "ernie4_5_vl_moe_text": "Ernie4_5_MoeForCausalLM",
    "exaone4_5_text": "Exaone4_5_ForCausalLM",
    "falcon": "FalconForCausalLM",
    "gemma4_unified_text": "Gemma4ForCausalLM",
    "glm_ocr_text": "Glm4ForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt_bigcode": "GPTBigCodeForCausalLM",
    "gptj": "GPTJForCausalLM",
    "granite_swa": "GraniteSWAForCausalLM",
    "granitemoe_swa": "GraniteMoeSWAForCausalLM",
    "hyperclovax": "HyperCLOVAXForCausalLM",
    "minicpm3": "MiniCPM3ForCausalLM",
    "molmo2_text": "MolmoForCausalLM",
    "nemotron-nas": "DeciLMForCausalLM",
    "opt": "OPTForCausalLM",
    "paddleocr_vl_text": "Ernie4_5ForCausalLM",
    "PanguEmbedded": "PanguEmbeddedForCausalLM",
    "qwen3_asr_text": "Qwen3ForCausalLM",
    "step3_text": "Step3TextForCausalLM",
    "vaultgemma": "VaultGemmaForCausalLM",
    "axk1": "AXK1ForCausalLM",
    "deepseek": "DeepseekForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "dots1": "Dots1ForCausalLM",
    "dots_ocr": "Qwen2ForCausalLM",
    "ernie4_5": "Ernie4_5ForCausalLM",
    "ernie4_5_moe": "Ernie4_5_MoeForCausalLM",
    "exaone4": "Exaone4ForCausalLM",
    "exaone_moe": "ExaoneMoeForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma3n_text": "Gemma3nForCausalLM",
    "gemma4_text": "Gemma4ForCausalLM",
    "glm": "GlmForCausalLM",
    "glm4": "Glm4ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "glm4_moe_lite": "Glm4MoeLiteForCausalLM",
    "glm4v_text": "Glm4ForCausalLM",
    "glm4v_moe_text": "Glm4MoeForCausalLM",
    "glm_moe_dsa": "GlmMoeDsaForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "granite": "GraniteForCausalLM",
    "granitemoe": "GraniteMoeForCausalLM",
    "granitemoeshared": "GraniteMoeSharedForCausalLM",
    "hunyuan_v1_dense": "HunYuanDenseV1ForCausalLM",
    "hunyuan_v1_moe": "HunYuanMoEV1ForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "internlm3": "InternLM3ForCausalLM",
    "bailing_hybrid": "BailingMoeV2_5ForCausalLM",
    "bamba": "BambaForCausalLM",
    "falcon_h1": "FalconH1ForCausalLM",
    "falcon_mamba": "FalconMambaForCausalLM",
    "granitemoehybrid": "GraniteMoeHybridForCausalLM",
    "jamba": "JambaForCausalLM",
    "kimi_k2": "DeepseekV3ForCausalLM",
    "kimi_linear": "KimiLinearForCausalLM",
    "lfm2": "Lfm2ForCausalLM",
    "lfm2_moe": "Lfm2MoeForCausalLM",
    "longcat_flash": "LongcatFlashForCausalLM",
    "mamba": "MambaForCausalLM",
    "mamba2": "Mamba2ForCausalLM",
    "minimax": "MiniMaxForCausalLM",
    "minimax_m1": "MiniMaxM1ForCausalLM",
    "minimax_text_01": "MiniMaxText01ForCausalLM",
    "nemotron_h": "NemotronHForCausalLM",
    "olmo_hybrid": "OlmoHybridForCausalLM",
    "zamba2": "Zamba2ForCausalLM",
    "laguna": "LagunaForCausalLM",
    "llama": "LlamaForCausalLM",
    "llama4_text": "Llama4ForCausalLM",
    "mimo": "MiMoForCausalLM",
    "mimo_v2_flash": "MiMoV2FlashForCausalLM",
    "minimax_m2": "MiniMaxM2ForCausalLM",
    "minimax_m3": "MiniMaxM3SparseForCausalLM",
    "minimax_m3_text": "MiniMaxM3SparseForCausalLM",
    "ministral": "MistralForCausalLM",
    "ministral3": "Ministral3ForCausalLM",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "nemotron": "NemotronForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "olmo3": "Olmo3ForCausalLM",
    "olmoe": "OlmoeForCausalLM",
    "phi": "PhiForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "phi3_v": "Phi3ForCausalLM",
    "phimoe": "PhiMoEForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_5_omni_text": "Qwen2ForCausalLM",
    "qwen2_5_vl": "Qwen2ForCausalLM",
    "qwen2_5_vl_text": "Qwen2ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen2_vl": "Qwen2ForCausalLM",
    "qwen2_vl_text": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_5_moe_text": "Qwen3_5MoeForCausalLM",
    "qwen3_5_text": "Qwen3_5ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "qwen3_next": "Qwen3NextForCausalLM",
    "qwen3_omni_moe_text": "Qwen3MoeForCausalLM",
    "qwen3_vl_moe_text": "Qwen3MoeForCausalLM",
    "qwen3_vl_text": "Qwen3ForCausalLM",
    "seed_oss": "SeedOssForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "stablelm": "StableLmForCausalLM",
    "plamo2": "Plamo2ForCausalLM",
    "step3p5": "Step3p5ForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
}

# Wrappers by `model_type`, for files without `architectures`, and the type of a text
# configuration that does not name its own.
WRAPPER_TYPES: dict[str, tuple[str, str]] = {
    "gemma3": ("Gemma3ForConditionalGeneration", "gemma3_text"),
    "gemma3n": ("Gemma3nForConditionalGeneration", "gemma3n_text"),
    "gemma4": ("Gemma4ForConditionalGeneration", "gemma4_text"),
    "kimi_k25": ("KimiK25ForConditionalGeneration", "deepseek_v3"),
    "kimi_k3": ("KimiK3ForConditionalGeneration", "kimi_linear"),
    "kimi_vl": ("KimiVLForConditionalGeneration", "deepseek_v3"),
    "llama4": ("Llama4ForConditionalGeneration", "llama4_text"),
    "minimax_m3_vl": ("MiniMaxM3SparseForConditionalGeneration", "minimax_m3_text"),
    "mistral3": ("Mistral3ForConditionalGeneration", "mistral"),
    "llava": ("LlavaForConditionalGeneration", "llama"),
    "llava_next": ("LlavaNextForConditionalGeneration", "llama"),
    "qwen2_vl": ("Qwen2VLForConditionalGeneration", "qwen2_vl_text"),
    "qwen2_5_vl": ("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text"),
    "qwen3_vl": ("Qwen3VLForConditionalGeneration", "qwen3_vl_text"),
    "qwen3_vl_moe": ("Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text"),
    "qwen3_5": ("Qwen3_5ForConditionalGeneration", "qwen3_5_text"),
    "qwen3_5_moe": ("Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text"),
    "exaone4_5": ("Exaone4_5_ForConditionalGeneration", "exaone4_5_text"),
    "gemma4_unified": ("Gemma4UnifiedForConditionalGeneration", "gemma4_unified_text"),
    "paddleocr_vl": ("PaddleOCRVLForConditionalGeneration", "paddleocr_vl_text"),
    "glm_ocr": ("GlmOcrForConditionalGeneration", "glm_ocr_text"),
    "ernie4_5_vl_moe": ("Ernie4_5_VLMoeForConditionalGeneration", "ernie4_5_vl_moe_text"),
    "glm4v": ("Glm4vForConditionalGeneration", "glm4v_text"),
    "glm4v_moe": ("Glm4vMoeForConditionalGeneration", "glm4v_moe_text"),
}
