/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_ckpt export: weights for other programs. */
#include "base/alloc.h"
#include "base/units.h"
#include "ckpt/hf.h"
#include "ckpt/safetensors.h"
#include "data/tokenizer_json.h"
#include "engine/engine.h"
#include "io/output.h"
#include "programs/mds_ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- ours ---- */

static enum mds_rc declare_all_tensors(struct mds_st_writer *w,
                                       const struct mds_ckpt_index *ix)
{
    char iteration[32];

    snprintf(iteration, sizeof iteration, "%" PRId64, ix->state.iteration);
    MDS_TRY(mds_st_writer_metadata(w, "format", "mds"));
    MDS_TRY(mds_st_writer_metadata(w, "iteration", iteration));
    for (int64_t i = 0; i < ix->tensors; i++) {
        const struct mds_ckpt_tensor *t = &ix->tensor[i];
        int64_t shape[2] = {t->rows, t->cols};

        MDS_TRY(mds_st_writer_declare(w, t->name, MDS_ST_F32, t->cols ? 2 : 1, shape));
    }
    return MDS_OK;
}

static enum mds_rc copy_tensor(struct mds_st_writer *w, struct mds_ckpt_reader *r,
                               int64_t tensor, int64_t elements, float *buf)
{
    const struct mds_ckpt_tensor *t = &mds_ckpt_reader_index(r)->tensor[tensor];

    for (struct mds_ckpt_part p = {0}; mds_ckpt_next_rows(t, elements, &p);) {
        MDS_TRY(mds_ckpt_reader_part(r, MDS_CKPT_WEIGHT, tensor, &p, buf));
        MDS_TRY(mds_st_writer_write(w, buf, (size_t)(p.rows * p.cols) * sizeof *buf));
    }
    return MDS_OK;
}

static enum mds_rc copy_all_tensors(struct mds_st_writer *w,
                                    const struct mds_ckpt_input *o)
{
    int64_t elements = mds_ckpt_rows_buffer(o->ix);
    float *buf = mds_zalloc((size_t)elements, sizeof *buf);
    enum mds_rc rc = buf ? declare_all_tensors(w, o->ix) : MDS_EMEM;

    for (int64_t i = 0; !rc && i < o->ix->tensors; i++)
        rc = copy_tensor(w, o->reader, i, elements, buf);
    free(buf);
    return rc;
}

static enum mds_rc export_mds(const struct mds_ckpt_input *o, const char *output)
{
    struct mds_st_writer *w;
    enum mds_rc rc;

    MDS_TRY(mds_st_writer_create(output, &w));
    rc = copy_all_tensors(w, o);
    if (rc) {
        mds_st_writer_abort(w);
        return rc;
    }
    MDS_TRY(mds_st_writer_finish(w));
    printf("%s: %" PRId64 " tensors of %s\n", output, o->ix->tensors, o->ix->path);
    return MDS_OK;
}

/* ---- Hugging Face's ---- */

/* Of the data that the run was trained on, as far as the checkpoint knows. */
static void add_tokenizer(const struct mds_ckpt_state *s, struct mds_hf_export *e)
{
    e->eod = s->tokenizer ? s->eod : -1;
    if (s->tokenizer > 0 && s->tokenizer <= MDS_TOKENIZERS)
        mds_tokenizer_json((enum mds_tokenizer)(s->tokenizer - 1), &e->tokenizer,
                           &e->tokenizer_config);
}

/* An import has no sequence length until a run trains it: the default says nothing of
 * how many positions the model knows. */
static void forget_default_length(struct mds_config_run *run)
{
    if (mds_settings_of(&run->settings, "model.seq_length")->level == MDS_LEVEL_DEFAULT)
        run->config.model.seq_length = 0;
}

static enum mds_rc export_hugging_face(const struct mds_ckpt_input *o,
                                       const struct mds_ckpt_options *a)
{
    static const enum mds_st_dtype types[] = {MDS_ST_F32, MDS_ST_BF16, MDS_ST_F16};
    static char *nothing[] = {NULL};
    struct mds_hf_export e = {.dir = a->output,
                              .overwrite = a->overwrite,
                              .reader = o->reader,
                              .type = types[a->type],
                              .shard_bytes = a->max_shard_bytes};
    struct mds_config_run *run;
    struct mds_params *whole = NULL;
    int files;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_input_config(o, 0, nothing, &run));
    rc = mds_engine_whole_params(&run->config, &whole);
    forget_default_length(run);
    e.model = &run->config.model;
    e.whole = whole;
    add_tokenizer(&o->ix->state, &e);
    if (!rc)
        rc = mds_hf_export(&e, &files);
    mds_str_fini(&e.tokenizer);
    mds_str_fini(&e.tokenizer_config);
    if (!rc)
        printf("%s: %d file%s of %s\n", a->output, files, mds_plural(files),
               o->ix->path);
    mds_params_destroy(whole);
    mds_config_run_destroy(run);
    return rc;
}

enum mds_rc mds_ckpt_run_export(const struct mds_invocation *c)
{
    const struct mds_ckpt_options *a = mds_ckpt_options(c);
    struct mds_ckpt_input o;
    enum mds_rc rc;

    if (!a->output)
        return mds_fail(MDS_EUSER, "export: --output is missing: FILE.safetensors, or "
                                   "with --format hf a folder");
    if (a->format == MDS_FORMAT_MDS && (a->type || a->max_shard_bytes))
        return mds_fail(MDS_EUSER, "export: --type and --max-shard-bytes are for "
                                   "--format hf");
    if (a->format == MDS_FORMAT_MDS)
        MDS_TRY(mds_output_check_new(a->output, a->overwrite));
    MDS_TRY(mds_ckpt_input_open(c->operand[0], &o));
    rc = a->format == MDS_FORMAT_HF ? export_hugging_face(&o, a)
                                    : export_mds(&o, a->output);
    mds_ckpt_input_close(&o);
    return rc;
}
