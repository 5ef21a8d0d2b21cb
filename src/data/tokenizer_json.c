/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/tokenizer_json.h"

/* ---- words ---- */

/* The letter that stands for a byte in byte-level vocabularies: itself where it prints,
 * else the next one from U+0100 on.  Source: GPT-2's encoder.py, bytes_to_unicode. */
static int byte_level_letter(int byte)
{
    int letter = 256;

    for (int b = 0; b <= byte; b++) {
        int prints = (b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad);

        if (b == byte)
            return prints ? b : letter;
        letter += !prints;
    }
    return letter;
}

static int is_of_bytes(enum mds_tokenizer t)
{
    return t == MDS_TOKENIZER_BYTES || t == MDS_TOKENIZER_DNA;
}

static void add_json_vocabulary(enum mds_tokenizer t, struct mds_str *out)
{
    struct mds_vocabulary v = mds_tokenizer_vocabulary(t);
    char word[8];

    mds_str_add(out, "    \"vocab\": {");
    for (int32_t id = 0; id < v.size; id++) {
        mds_str_add(out, "%s\n      ", id ? "," : "");
        if (is_of_bytes(t) && id != v.eod)
            mds_str_add(out, "\"\\u%04x\"", byte_level_letter(id));
        else
            mds_json_quote(mds_tokenizer_word(t, id, word), out);
        mds_str_add(out, ": %d", (int)id);
    }
    mds_str_add(out, "\n    }");
}

static void add_json_eod(enum mds_tokenizer t, struct mds_str *out)
{
    mds_str_add(out,
                "  \"added_tokens\": [\n    {\"id\": %d, \"content\": \"<eod>\", "
                "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                "\"normalized\": false, \"special\": true}\n  ],\n",
                (int)mds_tokenizer_vocabulary(t).eod);
}

/* ---- from text to words ---- */

/* What mds_data makes of the letters of a sequence (the table in data/fasta.c). */
static const char not_bases[] = "[RYSWKMBDHVryswkmbdhvn.-]";
static const struct rule {
    const char *pattern, *content;
} rules[] = {{"[ \\\\t\\\\r\\\\n]", ""},
             {"a", "A"},
             {"c", "C"},
             {"g", "G"},
             {"[tuU]", "T"},
             {NULL, "N"}};
enum { RULES = sizeof rules / sizeof *rules };

/* In dna a tag is between bars, and stays as it is; so does text behind a bar that no
 * other closes.  A tag goes on to the next bar if letters before that are in no
 * sequence.  A match begins where the last one ended (\G), and only what is behind \K
 * is replaced. */
static void add_json_outside_tags(const char *pattern, struct mds_str *out)
{
    static const char tag[] =
        "\\\\|[^|]*\\\\|(?:[^|]*[^|ACGTURYSWKMBDHVNacgturyswkmbdhvn. \\\\t\\\\r\\\\n-]"
        "[^|]*\\\\|)*+";

    mds_str_add(out, "\\\\G(?:%s|(?!%s)[^|])*+\\\\K%s", tag, pattern, pattern);
}

static void add_json_normalizers(enum mds_tokenizer t, struct mds_str *out)
{
    int tags = t == MDS_TOKENIZER_DNA;

    mds_str_add(out, "  \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [\n");
    for (int i = 0; i < RULES; i++) {
        const char *pattern = rules[i].pattern ? rules[i].pattern
                              : tags           ? not_bases
                                               : "[^ACGT]";

        mds_str_add(out, "    {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"");
        if (tags)
            add_json_outside_tags(pattern, out);
        else
            mds_str_add(out, "%s", pattern);
        mds_str_add(out, "\"}, \"content\": \"%s\"}%s\n", rules[i].content,
                    i < RULES - 1 ? "," : "");
    }
    mds_str_add(out, "  ]},\n");
}

/* Matches of the pattern are words; text between them is dropped. */
static void add_json_split(const char *pattern, struct mds_str *out)
{
    mds_str_add(out,
                "  \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": "
                "\"%s\"}, \"behavior\": \"Removed\", \"invert\": true},\n"
                "  \"post_processor\": null,\n  \"decoder\": {\"type\": \"Fuse\"},\n",
                pattern);
}

static void add_json_byte_level(struct mds_str *out)
{
    static const char rest[] = "\"add_prefix_space\": false, \"trim_offsets\": false, "
                               "\"use_regex\": false";

    mds_str_add(out,
                "  \"pre_tokenizer\": {\"type\": \"ByteLevel\", %s},\n"
                "  \"post_processor\": null,\n"
                "  \"decoder\": {\"type\": \"ByteLevel\", %s},\n",
                rest, rest);
}

static void add_json_model(enum mds_tokenizer t, struct mds_str *out)
{
    mds_str_add(out, "  \"model\": {\n");
    if (is_of_bytes(t))
        mds_str_add(out, "    \"type\": \"BPE\", \"dropout\": null, \"unk_token\": "
                         "null, \"continuing_subword_prefix\": null,\n"
                         "    \"end_of_word_suffix\": null, \"fuse_unk\": false, "
                         "\"byte_fallback\": false, \"merges\": [],\n");
    else
        mds_str_add(out, "    \"type\": \"WordLevel\", \"unk_token\": \"%s\",\n",
                    t == MDS_TOKENIZER_NUCLEOTIDE ? "N" : "<unk>");
    add_json_vocabulary(t, out);
    mds_str_add(out, "\n  }\n}\n");
}

void mds_tokenizer_json(enum mds_tokenizer t, struct mds_str *tokenizer,
                        struct mds_str *config)
{
    int words = mds_tokenizer_bases(t) > 1; /* of several bases */

    if (t == MDS_TOKENIZER_IDS || t == MDS_TOKENIZER_6MER_OVERLAPPING)
        return;
    mds_str_add(tokenizer, "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n"
                           "  \"padding\": null,\n");
    add_json_eod(t, tokenizer);
    if (t == MDS_TOKENIZER_BYTES)
        mds_str_add(tokenizer, "  \"normalizer\": null,\n");
    else
        add_json_normalizers(t, tokenizer);
    if (is_of_bytes(t)) {
        add_json_byte_level(tokenizer);
    } else {
        add_json_split(&"......"[6 - mds_tokenizer_bases(t)], tokenizer);
    }
    add_json_model(t, tokenizer);
    mds_str_add(config,
                "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                "  \"clean_up_tokenization_spaces\": false,\n%s"
                "  \"eos_token\": \"<eod>\"\n}\n",
                words ? "  \"unk_token\": \"<unk>\",\n" : "");
}
