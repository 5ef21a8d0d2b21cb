/* SPDX-License-Identifier: BSD-3-Clause */
/* Features of one type from a GFF3 file (genes, coding sequences), by FASTA record.
 *
 * Lines with the same ID are parts of one feature: the exons of a coding sequence.  So
 * are lines with the same Parent that have no ID or one of their own, unless others
 * name that ID as their Parent; those with several Parents are parts of several
 * features.  A part may end beyond its record, if that is circular, and goes on at the
 * record's start.
 *
 * Source: GFF3 specification 1.26, github.com/The-Sequence-Ontology/Specifications. */
#ifndef MDS_DATA_FEATURES_H
#define MDS_DATA_FEATURES_H

#include "base/status.h"

#include <stdint.h>

enum { MDS_PHASE_UNKNOWN = 3 };

struct mds_feature_part {
    uint64_t record, feature; /* hashes of their names */
    uint64_t id;              /* and of its own; 0: none */
    int64_t line;
    int64_t first;           /* where the feature's first part begins */
    int64_t begin, end;      /* bases begin .. end - 1 of the record, from 0 */
    unsigned char reverse;   /* on the reverse strand */
    unsigned char phase;     /* bases before the first whole codon, on that strand */
    unsigned char by_parent; /* the feature is what has this Parent */
};

/* Hashes of names. */
struct mds_name_set {
    uint64_t *hash;
    int64_t n;
};

struct mds_features {
    const char *path, *type;       /* borrowed */
    struct mds_feature_part *part; /* sorted by record, first, feature, begin */
    int64_t n;
    struct mds_name_set circular; /* records */
    char record[64];              /* the name of one record, for messages */
};

enum { MDS_FEATURES_MOST = 1 << 25 };

/* Read the features of that type; the file may be .gz.  MDS_EUSER, with the line, if it
 * is not GFF3 or has none of them. */
enum mds_rc mds_features_read(const char *path, const char *type,
                              struct mds_features *out);
void mds_features_fini(struct mds_features *f); /* a zeroed struct is fine */

/* The parts on the record of that name: returns how many, *parts is the first. */
int64_t mds_features_on(const struct mds_features *f, const char *record,
                        const struct mds_feature_part **parts);

int mds_features_circular(const struct mds_features *f, const char *record);

/* MDS_EUSER if one of these parts begins or ends beyond a record of `length` bases, or,
 * if that is circular, ends after going around it once. */
enum mds_rc mds_features_check(const struct mds_features *f, const char *record,
                               int64_t length, const struct mds_feature_part *parts,
                               int64_t n);

#endif
