"""Build a Llama small enough for any machine: a config and a tokenizer, without weights.

    .venv-vllm/bin/python scripts/tiny_model.py .models/tiny-llama

vLLM fills in random weights with `--load-format dummy`, so that answers are gibberish and everything
else is real. The tokenizer is a byte-level BPE of 512 entries learnt from the licence, the one English
text of this repository that does not change. The folder is written whole or not at all.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CORPUS = Path(__file__).resolve().parents[1] / "LICENSE"
VOCABULARY = 512
MAX_TOKENS = 4096
SPECIAL = ["<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
END = "<|end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def config() -> dict[str, object]:
    """A Llama of two layers, 64 wide."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": MAX_TOKENS,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": SPECIAL.index(END),
        "pad_token_id": 0,
        "dtype": "bfloat16",
    }


def tokenizer() -> Tokenizer:
    """Byte-level BPE: every text has tokens, none is unknown."""
    built = Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    built.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    built.train_from_iterator(CORPUS.read_text(encoding="utf-8").splitlines(), trainer)
    if built.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"{CORPUS} is too short to learn {VOCABULARY} tokens from")
    return built


def build(folder: Path) -> None:
    """Write the model folder; one that is there is replaced."""
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    tokenizer().save(str(draft / "tokenizer.json"))
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": SPECIAL[0],
        "eos_token": END,
        "model_max_length": MAX_TOKENS,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    for name, content in (("tokenizer_config.json", described), ("config.json", config())):
        (draft / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)


def main() -> None:
    """Build the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    build(parser.parse_args().folder.absolute())


if __name__ == "__main__":
    main()
