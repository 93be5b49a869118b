/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/spec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "compress/own.h"

#define FRACTION_DIGITS 15 /* a decimal of so many digits is exact in both directions */

/** A piece of the spec, not terminated. */
struct piece {
    const char *text;
    int length;
};

struct parser {
    struct wring_codec *codec;
    char *why;
    size_t why_bytes;
    unsigned given; /* bit i: parameter i was named */
};

__attribute__((format(printf, 2, 3))) static enum wring_status refuse(const struct parser *parser,
                                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    wring_number_vprint(parser->why, parser->why_bytes, format, args);
    va_end(args);
    return WRING_ERR_INVALID;
}

/** Cut the text up to the first of `ends`, or all of it, off `*rest`. */
static struct piece cut(const char **rest, const char *ends)
{
    struct piece piece = {*rest, (int)strcspn(*rest, ends)};
    *rest += piece.length;
    return piece;
}

static bool is(struct piece piece, const char *word)
{
    return strlen(word) == (size_t)piece.length &&
           memcmp(piece.text, word, (size_t)piece.length) == 0;
}

/**
 * A plain decimal such as 0.01. Own code, since strtod() follows the application's locale: m / 10^k
 * of integers below 2^53 and k <= 22 is rounded once, so every rank reads the same number.
 */
static bool parse_decimal(struct piece piece, double *out)
{
    uint64_t digits = 0;
    double scale = 1;
    int significant = 0; /* zeros before the point, as in 0.01, do not count */
    bool fraction = false, any = false;

    for (int i = 0; i < piece.length; i++) {
        char c = piece.text[i];
        if (c == '.' && !fraction) {
            fraction = true;
            continue;
        }
        if (c < '0' || c > '9')
            return false;
        any = true;
        significant += fraction || digits > 0 || c != '0';
        if (significant > FRACTION_DIGITS)
            return false;
        digits = digits * 10 + (uint64_t)(c - '0');
        scale *= fraction ? 10 : 1;
    }
    *out = (double)digits / scale;
    return any;
}

/** The index of a word in "one|two"; false where it is not among them. */
static bool parse_word(struct piece piece, const char *words, double *out)
{
    int index = 0;
    for (const char *rest = words;; rest++, index++) {
        struct piece word = cut(&rest, "|");
        if (word.length == piece.length &&
            memcmp(word.text, piece.text, (size_t)word.length) == 0) {
            *out = index;
            return true;
        }
        if (*rest == '\0')
            return false;
    }
}

static enum wring_status refuse_value(const struct parser *parser,
                                      const struct wring_codec_param *param, struct piece value)
{
    const char *codec = parser->codec->ops->name;
    if (param->words != NULL)
        return refuse(parser, "%s:%s=%.*s: needs one of %s", codec, param->name, value.length,
                      value.text, param->words);
    if (param->multiple_of > 1)
        return refuse(parser, "%s:%s=%.*s: needs a multiple of %g from %g to %g", codec,
                      param->name, value.length, value.text, param->multiple_of, param->min,
                      param->max);
    return refuse(parser, "%s:%s=%.*s: needs a %snumber from %g to %g", codec, param->name,
                  value.length, value.text, param->multiple_of == 1 ? "whole " : "", param->min,
                  param->max);
}

static bool in_range(const struct wring_codec_param *param, double value)
{
    if (value < param->min || value > param->max)
        return false;
    return param->multiple_of == 0 ||
           (uint64_t)value / (uint64_t)param->multiple_of * param->multiple_of == value;
}

static enum wring_status set_param(struct parser *parser, size_t index, struct piece value)
{
    const struct wring_codec_param *param = &parser->codec->ops->params[index];
    double number;

    if (parser->given & 1u << index)
        return refuse(parser, "%s: %s is given twice", parser->codec->ops->name, param->name);
    if (param->words != NULL ? !parse_word(value, param->words, &number)
                             : !parse_decimal(value, &number) || !in_range(param, number))
        return refuse_value(parser, param, value);
    parser->given |= 1u << index;
    parser->codec->params[index] = number;
    return WRING_OK;
}

static enum wring_status refuse_name(const struct parser *parser, struct piece name)
{
    const struct wring_codec_ops *ops = parser->codec->ops;
    char known[WRING_CODEC_SPEC_MAX] = "";

    for (size_t i = 0; i < ops->n_params; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s%s", i > 0 ? ", " : "",
                 ops->params[i].name);
    }
    return refuse(parser, "%s: no parameter '%.*s'; it takes %s", ops->name, name.length, name.text,
                  ops->n_params > 0 ? known : "none");
}

/** ":name=value" at *rest. */
static enum wring_status parse_param(struct parser *parser, const char **rest)
{
    const struct wring_codec_ops *ops = parser->codec->ops;

    ++*rest;
    struct piece name = cut(rest, ":+=");
    if (**rest != '=')
        return refuse(parser, "%s:%.*s: a parameter is written name=value", ops->name, name.length,
                      name.text);
    ++*rest;
    struct piece value = cut(rest, ":+");
    for (size_t i = 0; i < ops->n_params; i++)
        if (is(name, ops->params[i].name))
            return set_param(parser, i, value);
    return refuse_name(parser, name);
}

/** "+suffix" at *rest. */
static enum wring_status parse_suffix(struct parser *parser, const char **rest)
{
    struct wring_codec *codec = parser->codec;

    ++*rest;
    struct piece name = cut(rest, "+:");
    if (!is(name, "ef"))
        return refuse(parser, "%s: no suffix '+%.*s'; there is only +ef", codec->ops->name,
                      name.length, name.text);
    if (**rest == ':')
        return refuse(parser, "%s: parameters stand before +ef", codec->ops->name);
    if (codec->info.flags & WRING_CODEC_FEEDBACK)
        return refuse(parser, "%s: +ef is given twice", codec->ops->name);
    if (codec->ops->flags & WRING_CODEC_EXACT)
        return refuse(parser, "%s+ef: %s loses nothing that could be fed back; leave +ef away",
                      codec->ops->name, codec->ops->name);
    codec->info.flags |= WRING_CODEC_FEEDBACK;
    return WRING_OK;
}

/** Add the names of a list to a text that may become full. */
static void add_names(char *known, size_t bytes, const struct wring_codec_ops *const *list)
{
    for (; list != NULL && *list != NULL; list++) {
        size_t used = strlen(known);
        snprintf(known + used, bytes - used, "%s%s", used > 0 ? ", " : "", (*list)->name);
    }
}

static enum wring_status refuse_codec(const struct parser *parser, struct piece name,
                                      const struct wring_codec_ops *const *own)
{
    char known[WRING_CODEC_SPEC_MAX] = "";
    add_names(known, sizeof(known), wring_codec_list());
    add_names(known, sizeof(known), own);
    return refuse(parser, "no codec '%.*s'; there are %s", name.length, name.text, known);
}

static const struct wring_codec_ops *find_in(const struct wring_codec_ops *const *list,
                                             struct piece name)
{
    for (; list != NULL && *list != NULL; list++)
        if (is(name, (*list)->name))
            return *list;
    return NULL;
}

/** @return the library's table, or this codec's copy of an own one; NULL: there is none */
static const struct wring_codec_ops *find_ops(struct wring_codec *codec, struct piece name,
                                              const struct wring_codec_ops *const *own)
{
    const struct wring_codec_ops *ops = find_in(wring_codec_list(), name);
    if (ops != NULL)
        return ops;
    ops = find_in(own, name);
    return ops != NULL && wring_own_read(ops, &codec->read) ? &codec->read : NULL;
}

enum wring_status wring_spec_parse(struct wring_codec *codec, const char *spec,
                                   const struct wring_codec_ops *const *own, char *why,
                                   size_t why_bytes)
{
    struct parser parser = {.codec = codec, .why = why, .why_bytes = why_bytes};

    if (strlen(spec) >= WRING_CODEC_SPEC_MAX)
        return refuse(&parser, "codec: longer than %d bytes", WRING_CODEC_SPEC_MAX - 1);

    const char *rest = spec;
    struct piece name = cut(&rest, ":+");
    codec->ops = find_ops(codec, name, own);
    if (codec->ops == NULL)
        return refuse_codec(&parser, name, own);
    codec->info.flags = codec->ops->flags;
    for (size_t i = 0; i < codec->ops->n_params; i++)
        codec->params[i] = codec->ops->params[i].fallback;

    enum wring_status status = WRING_OK;
    while (*rest != '\0' && status == WRING_OK)
        status = *rest == ':' ? parse_param(&parser, &rest) : parse_suffix(&parser, &rest);
    return status;
}

/** As parse_decimal() reads it, whatever decimal point the application's locale writes. */
static void write_decimal(char *text, size_t bytes, double value)
{
    size_t used = (size_t)snprintf(text, bytes, "%.*f", FRACTION_DIGITS, value);
    size_t point = used - FRACTION_DIGITS - 1;

    text[point] = '.';
    while (text[used - 1] == '0')
        used--;
    text[text[used - 1] == '.' ? used - 1 : used] = '\0';
}

static void write_word(char *text, size_t bytes, const char *words, double value)
{
    const char *rest = words;
    struct piece word = cut(&rest, "|");
    for (int index = 0; index < (int)value; index++) {
        rest++;
        word = cut(&rest, "|");
    }
    snprintf(text, bytes, "%.*s", word.length, word.text);
}

/** Append to codec->spec. @return false: there is no room */
__attribute__((format(printf, 2, 3))) static bool append(struct wring_codec *codec,
                                                         const char *format, ...)
{
    size_t used = strlen(codec->spec), room = sizeof(codec->spec) - used;
    va_list args;

    va_start(args, format);
    int bytes = vsnprintf(codec->spec + used, room, format, args);
    va_end(args);
    return (size_t)bytes < room;
}

enum wring_status wring_spec_write(struct wring_codec *codec, char *why, size_t why_bytes)
{
    const struct wring_codec_ops *ops = codec->ops;
    bool fits = append(codec, "%s", ops->name);

    for (size_t i = 0; i < ops->n_params; i++) {
        char value[40];
        if (codec->params[i] == ops->params[i].fallback)
            continue;
        if (ops->params[i].words != NULL)
            write_word(value, sizeof(value), ops->params[i].words, codec->params[i]);
        else
            write_decimal(value, sizeof(value), codec->params[i]);
        fits = fits && append(codec, ":%s=%s", ops->params[i].name, value);
    }
    if (codec->info.flags & WRING_CODEC_FEEDBACK)
        fits = fits && append(codec, "+ef");
    if (fits)
        return WRING_OK;
    snprintf(why, why_bytes, "codec: longer than %d bytes", WRING_CODEC_SPEC_MAX - 1);
    return WRING_ERR_INVALID;
}
