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

#define FILE_MAX_BYTES (64u << 10) /* of the system's, so that no single file rules the text */
#define TOTAL_MAX_BYTES (6u << 20) /* of the system's */
#define USER_MAX_BYTES (64u << 20) /* of the user's, all files together */
#define PIECE_BYTES 4096u          /* the user's files are cut into these */
#define MIN_BYTES 20000
#define MIN_PART_BYTES 256 /* of a rank, and held out */
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
    uint64_t bytes;          /* of all */
    uint64_t files, dropped; /* files of which something was kept; those that were known */
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

/** Keep a copy of a text that is not known yet. @return 1 kept, 0 known, -1 with errno */
static int add_text(struct texts *texts, const uint8_t *data, uint64_t bytes)
{
    struct text text = {.bytes = bytes};
    SHA256(data, bytes, text.digest);
    if (is_known(texts, text.digest))
        return 0;
    if (texts->n == texts->capacity) {
        uint32_t capacity = texts->capacity * 2 + 64;
        struct text *grown = realloc(texts->all, capacity * sizeof(*grown));
        if (grown == NULL)
            return -1;
        texts->all = grown;
        texts->capacity = capacity;
    }
    text.data = malloc(bytes);
    if (text.data == NULL)
        return -1;
    memcpy(text.data, data, bytes);
    texts->all[texts->n++] = text;
    texts->bytes += bytes;
    return 1;
}

/** Read at most max bytes. @param data out, the caller frees it @return 0, or -1 with errno */
static int read_file(const char *path, uint64_t max, uint8_t **data, uint64_t *bytes)
{
    struct stat about;
    int error = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    if (fstat(fileno(file), &about) != 0 || !S_ISREG(about.st_mode)) {
        fclose(file);
        errno = S_ISDIR(about.st_mode) ? EISDIR : EINVAL;
        return -1;
    }
    uint64_t size = (uint64_t)about.st_size < max ? (uint64_t)about.st_size : max;
    *data = malloc(size + 1);
    *bytes = *data != NULL ? fread(*data, 1, size, file) : 0;
    if (*data == NULL || ferror(file))
        error = *data == NULL ? ENOMEM : EIO;
    fclose(file);
    if (error == 0)
        return 0;
    free(*data);
    errno = error;
    return -1;
}

/** Take the beginning of a file as one text, unless it is known, no text, or cannot be read. */
static void add_system_file(struct texts *texts, const char *path)
{
    uint8_t *data;
    uint64_t bytes;
    if (read_file(path, FILE_MAX_BYTES, &data, &bytes) != 0)
        return; /* what cannot be read is not missed */
    int kept = is_text(data, bytes) ? add_text(texts, data, bytes) : -1;
    texts->files += kept == 1;
    texts->dropped += kept == 0;
    free(data);
}

/** Cut into pieces, so that even one file can be split. @return pieces kept, or -1 with errno */
static int add_pieces(struct texts *texts, const uint8_t *data, uint64_t bytes)
{
    int kept = 0;
    for (uint64_t at = 0; at < bytes; at += PIECE_BYTES) {
        uint64_t piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        int added = add_text(texts, data + at, piece);
        if (added < 0)
            return -1;
        kept += added;
    }
    return kept;
}

/** Take all of a file that the user named. @return 0, or -1 after a line on standard error */
static int add_user_file(struct texts *texts, const char *path)
{
    uint8_t *data;
    uint64_t bytes;
    if (read_file(path, USER_MAX_BYTES + 1, &data, &bytes) != 0) {
        fprintf(stderr, "wring demo: %s: %s\n", path, strerror(errno));
        return -1;
    }
    int kept = -1;
    if (texts->bytes + bytes > USER_MAX_BYTES)
        fprintf(stderr, "wring demo: %s: more than %u MiB of text in all\n", path,
                USER_MAX_BYTES >> 20);
    else if (!is_text(data, bytes))
        fprintf(stderr, "wring demo: %s: no text: too short, or it has zero bytes\n", path);
    else if ((kept = add_pieces(texts, data, bytes)) < 0)
        fprintf(stderr, "wring demo: %s: %s\n", path, strerror(errno));
    texts->files += kept > 0;
    texts->dropped += kept == 0;
    free(data);
    return kept < 0 ? -1 : 0;
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
            add_system_file(texts, entry->fts_path);
    fts_close(tree);
}

static int by_order(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

static int split_texts(struct texts *texts, uint64_t seed, struct demo_corpus *out)
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
        fprintf(stderr, "wring demo: out of memory for the text\n");
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
    corpus.files = texts->files;
    corpus.dropped = texts->dropped;
    *out = corpus;
    return 0;
}

static int complain_short(const struct texts *texts, uint32_t ranks)
{
    fprintf(stderr,
            "wring demo: %llu bytes of text in %llu files are too little for %u ranks: give more "
            "with --text\n",
            (unsigned long long)texts->bytes, (unsigned long long)texts->files, ranks);
    return -1;
}

static int gather_texts(struct texts *texts, const char *const *paths, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (add_user_file(texts, paths[i]) != 0)
            return -1;
    if (n == 0)
        add_system(texts);
    return 0;
}

static bool is_enough(const struct demo_corpus *corpus, uint32_t ranks)
{
    return corpus->train_bytes / ranks >= MIN_PART_BYTES &&
           corpus->held_out_bytes >= MIN_PART_BYTES;
}

int demo_corpus_load(const char *const *paths, uint32_t n, uint64_t seed, uint32_t ranks,
                     struct demo_corpus *out)
{
    struct texts texts = {0};
    int failed = gather_texts(&texts, paths, n);
    if (!failed && (texts.n < 2 || texts.bytes < MIN_BYTES))
        failed = complain_short(&texts, ranks);
    if (!failed)
        failed = split_texts(&texts, seed, out);
    if (!failed && !is_enough(out, ranks)) {
        demo_corpus_free(out);
        failed = complain_short(&texts, ranks);
    }
    for (uint32_t i = 0; i < texts.n; i++)
        free(texts.all[i].data);
    free(texts.all);
    return failed;
}

uint64_t demo_corpus_hash(const struct demo_corpus *corpus)
{
    uint8_t digests[2][SHA256_DIGEST_LENGTH], digest[SHA256_DIGEST_LENGTH];
    uint64_t hash;

    SHA256(corpus->train, corpus->train_bytes, digests[0]);
    SHA256(corpus->held_out, corpus->held_out_bytes, digests[1]);
    SHA256(digests[0], sizeof(digests), digest);
    memcpy(&hash, digest, sizeof(hash));
    return hash;
}

void demo_corpus_free(struct demo_corpus *corpus)
{
    free(corpus->train);
    free(corpus->held_out);
    *corpus = (struct demo_corpus){0};
}
