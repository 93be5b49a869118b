/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/corpus.h"

#include <errno.h>
#include <fts.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/demo/random.h"

#define FILE_MAX_BYTES (64u << 10) /* so that no single file rules the text */
#define TOTAL_MAX_BYTES (6u << 20)
#define MIN_BYTES 20000
#define HELD_OUT_SHARE 0.06

struct text {
    uint8_t *data;
    uint64_t bytes;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    uint64_t order; /* random, from content and seed: not from the file system */
};

struct texts {
    struct text *all;
    uint32_t n, capacity;
    uint64_t bytes, dropped;
};

static bool is_known(const struct texts *texts, const uint8_t *digest)
{
    for (uint32_t i = 0; i < texts->n; i++)
        if (memcmp(texts->all[i].digest, digest, SHA256_DIGEST_LENGTH) == 0)
            return true;
    return false;
}

static bool is_text(const uint8_t *data, uint64_t bytes)
{
    return bytes > 64 && memchr(data, 0, bytes) == NULL;
}

/** Take the beginning of a file, unless it is known or no text. @return 0, or -1 with errno */
static int add_file(struct texts *texts, const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    uint8_t *data = malloc(FILE_MAX_BYTES);
    uint64_t bytes = data != NULL ? fread(data, 1, FILE_MAX_BYTES, file) : 0;
    int error = ferror(file) ? EIO : 0;
    fclose(file);
    struct text text = {.data = data, .bytes = bytes};
    SHA256(data, bytes, text.digest);
    bool known = is_known(texts, text.digest);
    texts->dropped += known;
    if (error != 0 || known || !is_text(data, bytes)) {
        free(data);
        errno = error;
        return error != 0 ? -1 : 0;
    }
    if (texts->n == texts->capacity) {
        uint32_t capacity = texts->capacity * 2 + 64;
        struct text *grown = realloc(texts->all, capacity * sizeof(*grown));
        if (grown == NULL) {
            free(data);
            return -1;
        }
        texts->all = grown;
        texts->capacity = capacity;
    }
    texts->all[texts->n++] = text;
    texts->bytes += bytes;
    return 0;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_documentation(const char *name)
{
    const char *dot = strrchr(name, '.');
    return strcmp(name, "copyright") == 0 || strncmp(name, "README", 6) == 0 ||
           strncmp(name, "NEWS", 4) == 0 || (dot != NULL && strcmp(dot, ".txt") == 0) ||
           (dot != NULL && strcmp(dot, ".pod") == 0);
}

/** What every Debian system has: licences, and what packages say about themselves. */
static void add_system(struct texts *texts)
{
    char licences[] = "/usr/share/common-licenses", doc[] = "/usr/share/doc";
    char perl[] = "/usr/share/perl";
    char *roots[] = {licences, doc, perl, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (tree == NULL)
        return;
    for (FTSENT *entry; (entry = fts_read(tree)) != NULL && texts->bytes < TOTAL_MAX_BYTES;)
        if (entry->fts_info == FTS_F && entry->fts_statp->st_size > 0 &&
            (strncmp(entry->fts_path, licences, sizeof(licences) - 1) == 0 ||
             is_documentation(entry->fts_name)))
            add_file(texts, entry->fts_path); /* what cannot be read is not missed */
    fts_close(tree);
}

static int by_order(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

static int split(struct texts *texts, uint64_t seed, struct demo_corpus *out)
{
    for (uint32_t i = 0; i < texts->n; i++) {
        uint64_t key;
        memcpy(&key, texts->all[i].digest, sizeof(key));
        texts->all[i].order = demo_random(seed, key);
    }
    qsort(texts->all, texts->n, sizeof(*texts->all), by_order);

    struct demo_corpus corpus = {.train = malloc(texts->bytes), .held_out = malloc(texts->bytes)};
    if (corpus.train == NULL || corpus.held_out == NULL) {
        demo_corpus_free(&corpus);
        return -1;
    }
    uint64_t want = (uint64_t)((double)texts->bytes * HELD_OUT_SHARE);
    for (uint32_t i = 0; i < texts->n; i++) {
        const struct text *text = &texts->all[i];
        bool held_out = corpus.held_out_bytes < want && i + 1 < texts->n;
        uint64_t *bytes = held_out ? &corpus.held_out_bytes : &corpus.train_bytes;
        memcpy((held_out ? corpus.held_out : corpus.train) + *bytes, text->data, text->bytes);
        *bytes += text->bytes;
    }
    corpus.files = texts->n;
    corpus.dropped = texts->dropped;
    *out = corpus;
    return 0;
}

int demo_corpus_load(const char *const *paths, uint32_t n, uint64_t seed, struct demo_corpus *out)
{
    struct texts texts = {0};
    int failed = 0;
    for (uint32_t i = 0; i < n && !failed; i++)
        if (add_file(&texts, paths[i]) != 0) {
            fprintf(stderr, "wring demo: %s: %s\n", paths[i], strerror(errno));
            failed = -1;
        }
    if (n == 0)
        add_system(&texts);
    if (!failed && (texts.n < 2 || texts.bytes < MIN_BYTES)) {
        fprintf(stderr,
                "wring demo: %llu bytes of text in %u files are too little: give at least "
                "2 different files and %d bytes with --text\n",
                (unsigned long long)texts.bytes, texts.n, MIN_BYTES);
        failed = -1;
    }
    if (!failed)
        failed = split(&texts, seed, out);
    for (uint32_t i = 0; i < texts.n; i++)
        free(texts.all[i].data);
    free(texts.all);
    return failed;
}

void demo_corpus_free(struct demo_corpus *corpus)
{
    free(corpus->train);
    free(corpus->held_out);
    *corpus = (struct demo_corpus){0};
}
