"""Networks for text and sound, small: few layers, few channels, random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from _exports.network import BATCH, TOKENS, Built, Network, words
from _exports.recurrent import RECURRENT

_SMALL: dict[str, Any] = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 32,
}  # fmt: skip
_GROUPED = {**_SMALL, "num_key_value_heads": 2}


class Masked(nn.Module):
    """A model of transformers that takes tokens and a mask."""

    def __init__(self, inner: nn.Module, **options: Any) -> None:
        super().__init__()
        self.inner, self.options = inner, options

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
        """Return its first result."""
        return self.inner(input_ids=input_ids, attention_mask=attention_mask, return_dict=False, **self.options)[0]


def _of_transformers(config: str, model: str, **fields: Any) -> Built:
    import transformers

    inner = getattr(transformers, model)(getattr(transformers, config)(**fields))
    # The RotaryEmbedding that is exported at opset 23 takes angles of a single row for all.
    has_angles = "Llama" in model or "Qwen2" in model
    tokens = words(batch=1 if has_angles else 2)
    mask = torch.ones_like(tokens)
    mask[-1, -2:] = 0
    inputs = {"input_ids": tokens, "attention_mask": mask}
    options = {} if "Bert" in model else {"use_cache": False}
    return Built(Masked(inner, **options), inputs, dict.fromkeys(inputs, {1: "tokens"} if has_angles else TOKENS))


class Cached(nn.Module):
    """One step of a decoder, with the keys and values of what came before."""

    def __init__(self, inner: nn.Module, layers: int) -> None:
        super().__init__()
        self.inner, self.layers = inner, layers

    def forward(self, input_ids: torch.Tensor, past_keys: torch.Tensor, past_values: torch.Tensor) -> Any:
        """Return the scores, and the longer keys and values; those of all layers are stacked."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer in range(self.layers):
            cache.update(past_keys[layer], past_values[layer], layer)
        found = self.inner(input_ids=input_ids, past_key_values=cache, use_cache=True)
        later = found.past_key_values.layers
        keys, values = (torch.stack([getattr(layer, name) for layer in later]) for name in ("keys", "values"))
        return found.logits, keys, values


def _cached(config: str, model: str, heads: int, **fields: Any) -> Built:
    import transformers

    inner = getattr(transformers, model)(getattr(transformers, config)(**fields))
    inputs = {
        "input_ids": words(length=1, batch=1),
        "past_keys": torch.randn(2, 1, heads, 5, 8),
        "past_values": torch.randn(2, 1, heads, 5, 8),
    }
    past = {3: "past"}
    return Built(Cached(inner, 2), inputs, {"past_keys": past, "past_values": past})


def _gpt_2(**more: Any) -> dict[str, Any]:
    return {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, **more}


class Transcribing(nn.Module):
    """Whisper: the encoder on a spectrogram, the decoder on tokens."""

    def __init__(self) -> None:
        from transformers import WhisperConfig, WhisperModel

        super().__init__()
        self.inner = WhisperModel(WhisperConfig(
            vocab_size=99, num_mel_bins=8, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=48, decoder_ffn_dim=48, max_source_positions=20,
            max_target_positions=16, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        ))  # fmt: skip

    def forward(self, input_features: torch.Tensor, decoder_input_ids: torch.Tensor) -> Any:
        """Return the last states of the decoder."""
        mask = torch.ones_like(decoder_input_ids)  # without it, the old exporter meets operators that it lacks
        return self.inner(
            input_features, decoder_input_ids=decoder_input_ids, decoder_attention_mask=mask, use_cache=False
        ).last_hidden_state


def _whisper() -> Built:
    inputs = {"input_features": torch.randn(2, 8, 40), "decoder_input_ids": words(length=5)}
    return Built(Transcribing(), inputs, {"decoder_input_ids": {1: "tokens"}})


class Sound(nn.Module):
    """wav2vec 2."""

    def __init__(self, norm: str) -> None:
        from transformers import Wav2Vec2Config, Wav2Vec2Model

        super().__init__()
        config = Wav2Vec2Config(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, conv_dim=[8, 8, 8],
            conv_stride=[5, 2, 2], conv_kernel=[10, 3, 2], num_conv_pos_embeddings=16, num_feat_extract_layers=3,
            num_conv_pos_embedding_groups=4, feat_extract_norm=norm, do_stable_layer_norm=norm == "layer",
        )  # fmt: skip
        self.inner = Wav2Vec2Model(config)

    def forward(self, data: torch.Tensor) -> Any:
        """Return the last states."""
        return self.inner(data, return_dict=False)[0]


def _sound(norm: str, *, dynamic: bool) -> Built:
    return Built(Sound(norm), {"data": torch.randn(2, 800)}, {"data": BATCH} if dynamic else {})


class Translating(nn.Module):
    """T5, whose attention adds a bias for every distance."""

    def __init__(self) -> None:
        from transformers import T5Config, T5Model

        super().__init__()
        self.inner = T5Model(T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4))

    def forward(self, input_ids: torch.Tensor, decoder_input_ids: torch.Tensor) -> Any:
        """Return the last states of the decoder."""
        found = self.inner(input_ids=input_ids, decoder_input_ids=decoder_input_ids, use_cache=False, return_dict=False)
        return found[0]


def _t5() -> Built:
    return Built(Translating(), {"input_ids": words(), "decoder_input_ids": words(length=4)})


def _text(name: str, family: str, config: str, model: str, **fields: Any) -> Network:
    def build() -> Built:
        return _of_transformers(config, model, **fields)

    return Network(name, family, build)


def _named(name: str, family: str, build: Callable[[], Built]) -> Network:
    return Network(name, family, build)


SEQUENCES = (
    _text("bert", "BERT", "BertConfig", "BertModel", **_SMALL),
    _text("bert_eager", "BERT", "BertConfig", "BertForSequenceClassification", **_SMALL, attn_implementation="eager"),
    _text("distilbert", "BERT", "DistilBertConfig", "DistilBertModel", vocab_size=99, dim=32, n_layers=2, n_heads=4,
          hidden_dim=48, max_position_embeddings=32),
    _text("gpt2", "GPT-2", "GPT2Config", "GPT2LMHeadModel", **_gpt_2()),
    _named("gpt2_cache", "GPT-2", lambda: _cached("GPT2Config", "GPT2LMHeadModel", 4, **_gpt_2())),
    _text("llama", "Llama", "LlamaConfig", "LlamaForCausalLM", **_GROUPED),
    _named("llama_cache", "Llama", lambda: _cached("LlamaConfig", "LlamaForCausalLM", 2, **_GROUPED)),
    _text("qwen2", "Qwen2", "Qwen2Config", "Qwen2ForCausalLM", **_GROUPED),
    _text("qwen2_eager", "Qwen2", "Qwen2Config", "Qwen2ForCausalLM", **_GROUPED, attn_implementation="eager"),
    _named("whisper", "Whisper", _whisper),
    _named("wav2vec2", "wav2vec2", lambda: _sound("group", dynamic=True)),
    _named("wav2vec2_layer", "wav2vec2", lambda: _sound("layer", dynamic=False)),
    _named("t5", "T5", _t5),
    *RECURRENT,
)  # fmt: skip
