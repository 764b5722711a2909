"""Writes a tiny language model with random weights, for llama.cpp and whatever else reads GGUF.

    tiny_gguf.py OUT.gguf [--dim 64] [--layers 2] [--context 4096] [--seed 7]

It is a complete model of the llama architecture with a tokenizer of its own (SentencePiece kind: three control tokens, 256 bytes,
the printable ASCII characters and some hundred made-up words) and a chat template, so a server loads it as any other, and answers
completions and chats with words that mean nothing. The same arguments write the same bytes. A larger --dim makes each token slower.

Needs the package gguf.
"""

import argparse
import itertools

import gguf
import numpy

HEADS = 4
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def vocabulary():
    """Yields (text, score, type) of each token, in the order of their numbers."""
    yield "<unk>", 0.0, gguf.TokenType.UNKNOWN
    yield "<s>", 0.0, gguf.TokenType.CONTROL
    yield "</s>", 0.0, gguf.TokenType.CONTROL
    for byte in range(256):
        yield f"<0x{byte:02X}>", 0.0, gguf.TokenType.BYTE
    yield "\u2581", -1.0, gguf.TokenType.NORMAL
    for code in range(0x21, 0x7F):
        yield chr(code), -2.0, gguf.TokenType.NORMAL
    # Of the mergeable pieces the one with the highest score wins; the exact value does not matter here.
    for syllables in itertools.chain(itertools.product("bdglmnrst", "aeiou"), itertools.product("bdglmnrst", "aeiou", "lnrs")):
        yield "\u2581" + "".join(syllables), -3.0, gguf.TokenType.NORMAL


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--dim", type=int, default=64, help=f"width of the model, a multiple of {2 * HEADS}")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    if args.dim <= 0 or args.dim % (2 * HEADS):
        parser.error(f"--dim: got {args.dim}, expected a positive multiple of {2 * HEADS}")

    tokens = list(vocabulary())
    random = numpy.random.Generator(numpy.random.PCG64(args.seed))

    def weights(rows, columns):
        return (random.standard_normal((rows, columns)) / numpy.sqrt(columns)).astype(numpy.float32)

    writer = gguf.GGUFWriter(args.out, "llama")
    writer.add_name("tiny")
    writer.add_context_length(args.context)
    writer.add_embedding_length(args.dim)
    writer.add_block_count(args.layers)
    writer.add_feed_forward_length(2 * args.dim)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(args.dim // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _, _ in tokens])
    writer.add_token_scores([score for _, score, _ in tokens])
    writer.add_token_types([kind for _, _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)

    # A token that is no word has a logit of exactly 0, while hundreds of words share what is above: bytes that are no UTF-8 and an early
    # end are practically never drawn.
    output = 8 * weights(len(tokens), args.dim)
    output[[kind != gguf.TokenType.NORMAL for _, _, kind in tokens]] = 0
    writer.add_tensor("token_embd.weight", weights(len(tokens), args.dim))
    for layer in range(args.layers):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(args.dim, args.dim))
        for name in ("ffn_gate", "ffn_up"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", weights(2 * args.dim, args.dim))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", weights(args.dim, 2 * args.dim))
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", numpy.ones(args.dim, numpy.float32))
    writer.add_tensor("output_norm.weight", numpy.ones(args.dim, numpy.float32))
    writer.add_tensor("output.weight", output)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
