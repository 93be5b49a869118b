/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/spec.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "compress/codec.h"

#define KNOWN_MAX 400      /* bytes of a list of all codecs */
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

__attribute__((format(printf, 2, 3))) static enum wring_status refuse_spec(
    const struct parser *parser, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    wring_number_vprint(parser->why, parser->why_bytes, format, args);
    va_end(args);
    return WRING_ERR_INVALID;
}

/** Cut the text up to the first of `ends`, or all of it, off `*rest`. */
static struct piece cut_piece(const char **rest, const char *ends)
{
    struct piece piece = {*rest, (int)strcspn(*rest, ends)};
    *rest += piece.length;
    return piece;
}

static bool is_word(struct piece piece, const char *word)
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
        struct piece word = cut_piece(&rest, "|");
        if (word.length == piece.length &&
            memcmp(word.text, piece.text, (size_t)word.length) == 0) {
            *out = index;
            return true;
        }
        if (*rest == '\0')
            return false;
    }
}

/** As parse_decimal() reads it, whatever decimal point the application's locale writes. */
static void write_decimal(char *text, size_t bytes, double value)
{
    int digits = FRACTION_DIGITS; /* of the fraction */
    for (double least = 1; value >= least && digits > 1; least *= 10)
        digits--;
    size_t used = (size_t)snprintf(text, bytes, "%.*f", digits, value);
    size_t point = used - (size_t)digits - 1;

    text[point] = '.';
    while (text[used - 1] == '0')
        used--;
    text[text[used - 1] == '.' ? used - 1 : used] = '\0';
}

/** A bound of a parameter, as a spec may have it where any spec can. */
static const char *write_bound(char *text, size_t bytes, double value)
{
    double size = fabs(value);

    if (size == 0 || (size >= 1e-15 && size < 1e15))
        write_decimal(text, bytes, value);
    else
        snprintf(text, bytes, "%g", value);
    return text;
}

/** @param codec  or the suffix whose parameter it is */
static enum wring_status refuse_value(const struct parser *parser, const char *codec,
                                      const struct wring_codec_param *param, struct piece value)
{
    char what[64], multiple[32], min[32], max[32];

    if (param->words != NULL)
        return refuse_spec(parser, "%s:%s=%.*s: needs one of %s", codec, param->name, value.length,
                           value.text, param->words);
    if (param->multiple_of > 1)
        snprintf(what, sizeof(what), "multiple of %s",
                 write_bound(multiple, sizeof(multiple), param->multiple_of));
    else
        snprintf(what, sizeof(what), "%s number", param->multiple_of == 1 ? "whole" : "decimal");
    return refuse_spec(parser, "%s:%s=%.*s: needs a %s from %s to %s", codec, param->name,
                       value.length, value.text, what, write_bound(min, sizeof(min), param->min),
                       write_bound(max, sizeof(max), param->max));
}

static bool is_in_range(const struct wring_codec_param *param, double value)
{
    if (value < param->min || value > param->max)
        return false;
    return param->multiple_of == 0 ||
           (uint64_t)value / (uint64_t)param->multiple_of * param->multiple_of == value;
}

static bool parse_value(const struct wring_codec_param *param, struct piece value, double *out)
{
    if (param->words != NULL)
        return parse_word(value, param->words, out);
    return parse_decimal(value, out) && is_in_range(param, *out);
}

static enum wring_status set_param(struct parser *parser, size_t index, struct piece value)
{
    const char *codec = parser->codec->ops->name;
    const struct wring_codec_param *param = &parser->codec->ops->params[index];
    double number;

    if (parser->given & 1u << index)
        return refuse_spec(parser, "%s: %s is given twice", codec, param->name);
    if (!parse_value(param, value, &number))
        return refuse_value(parser, codec, param, value);
    parser->given |= 1u << index;
    parser->codec->params[index] = number;
    return WRING_OK;
}

static enum wring_status refuse_name(const struct parser *parser, struct piece name)
{
    const struct wring_codec_ops *ops = parser->codec->ops;
    char known[KNOWN_MAX] = "";

    for (size_t i = 0; i < ops->n_params; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s%s", i > 0 ? ", " : "",
                 ops->params[i].name);
    }
    return refuse_spec(parser, "%s: no parameter '%.*s'; it takes %s", ops->name, name.length,
                       name.text, ops->n_params > 0 ? known : "none");
}

/** ":name=value" at *rest. */
static enum wring_status parse_param(struct parser *parser, const char **rest)
{
    const struct wring_codec_ops *ops = parser->codec->ops;

    ++*rest;
    struct piece name = cut_piece(rest, ":+/=");
    if (**rest != '=')
        return refuse_spec(parser, "%s:%.*s: a parameter is written name=value", ops->name,
                           name.length, name.text);
    ++*rest;
    struct piece value = cut_piece(rest, ":+/");
    for (size_t i = 0; i < ops->n_params; i++)
        if (is_word(name, ops->params[i].name))
            return set_param(parser, i, value);
    return refuse_name(parser, name);
}

/** "/values" at *rest: the spec of a codec without suffixes. */
static enum wring_status parse_values(struct parser *parser, const char **rest)
{
    struct wring_codec *codec = parser->codec;

    ++*rest;
    struct piece values = cut_piece(rest, "+");
    if (values.length == 0)
        return refuse_spec(parser, "%s/: needs the codec of its values, as in topk/int8",
                           codec->ops->name);
    memcpy(codec->values_spec, values.text, (size_t)values.length);
    codec->values_spec[values.length] = '\0';
    return WRING_OK;
}

/* ---- suffixes ---- */

static const struct wring_codec_param warmup_steps = {
    "steps", NULL, "with larger ratios, from a quarter on", 1000, 1, 1e9, 1};
static const struct wring_codec_param momentum_beta = {
    "beta", NULL, "what stays of it at each step", 0.9, 0, 0.9999, 0};

static const struct wring_codec_param ef_residual = {
    "residual", "f32|bf16|int8", "how it is kept, rounded at random but for f32", 0, 0, 2, 0};

static const struct suffix {
    const char *name;
    const struct wring_codec_param *param; /* NULL: it has none */
} suffixes[WRING_SUFFIXES] = {
    [WRING_SUFFIX_WARMUP] = {"+warmup", &warmup_steps},
    [WRING_SUFFIX_MOMENTUM] = {"+momentum", &momentum_beta},
    [WRING_SUFFIX_NESTEROV] = {"+nesterov", &momentum_beta},
    [WRING_SUFFIX_EF] = {"+ef", &ef_residual},
    [WRING_SUFFIX_EF21] = {"+ef21", NULL},
};

static enum wring_status refuse_suffix(const struct parser *parser, struct piece name)
{
    char known[KNOWN_MAX] = "";

    for (size_t i = 0; i < WRING_SUFFIXES; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s%s", i > 0 ? ", " : "", suffixes[i].name);
    }
    return refuse_spec(parser, "%s: no suffix '+%.*s'; there are %s", parser->codec->ops->name,
                       name.length, name.text, known);
}

/** ":name=value" of a suffix at *rest. */
static enum wring_status parse_suffix_param(struct parser *parser, size_t index, const char **rest)
{
    const char *codec = parser->codec->ops->name;
    const struct suffix *suffix = &suffixes[index];
    double number;

    if (suffix->param == NULL)
        return refuse_spec(parser, "%s: parameters stand before %s", codec, suffix->name);
    ++*rest;
    struct piece name = cut_piece(rest, ":+/=");
    if (**rest != '=')
        return refuse_spec(parser, "%s:%.*s: a parameter is written name=value", suffix->name,
                           name.length, name.text);
    ++*rest;
    struct piece value = cut_piece(rest, ":+/");
    if (!is_word(name, suffix->param->name))
        return refuse_spec(parser,
                           "%s: no parameter '%.*s'; it takes %s, and those of %s stand "
                           "before it",
                           suffix->name, name.length, name.text, suffix->param->name, codec);
    if (!parse_value(suffix->param, value, &number))
        return refuse_value(parser, suffix->name, suffix->param, value);
    if (**rest == ':')
        return refuse_spec(parser, "%s: it takes one parameter, %s", suffix->name,
                           suffix->param->name);
    parser->codec->suffix_params[index] = number;
    return WRING_OK;
}

static enum wring_status take_suffix(struct parser *parser, size_t index)
{
    struct wring_codec *codec = parser->codec;

    if (wring_codec_has_suffix(codec, (enum wring_suffix)index))
        return refuse_spec(parser, "%s: %s is given twice", codec->ops->name, suffixes[index].name);
    codec->suffixes |= 1u << index;
    if (suffixes[index].param != NULL)
        codec->suffix_params[index] = suffixes[index].param->fallback;
    if (index != WRING_SUFFIX_EF && index != WRING_SUFFIX_EF21)
        return WRING_OK;
    if (codec->info.flags & WRING_CODEC_FEEDBACK)
        return refuse_spec(parser, "%s: one feedback is enough; take +ef or +ef21",
                           codec->ops->name);
    if (codec->ops->flags & WRING_CODEC_EXACT)
        return refuse_spec(parser, "%s%s: %s loses nothing that could be fed back; leave %s away",
                           codec->ops->name, suffixes[index].name, codec->ops->name,
                           suffixes[index].name);
    codec->info.flags |= WRING_CODEC_FEEDBACK;
    return WRING_OK;
}

/** "+suffix" or "+suffix:name=value" at *rest. */
static enum wring_status parse_suffix(struct parser *parser, const char **rest)
{
    ++*rest;
    struct piece name = cut_piece(rest, "+:/");
    for (size_t i = 0; i < WRING_SUFFIXES; i++)
        if (is_word(name, suffixes[i].name + 1)) {
            enum wring_status status = take_suffix(parser, i);
            return status == WRING_OK && **rest == ':' ? parse_suffix_param(parser, i, rest)
                                                       : status;
        }
    return refuse_suffix(parser, name);
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
    char known[KNOWN_MAX] = "";
    add_names(known, sizeof(known), wring_codec_list());
    add_names(known, sizeof(known), own);
    return refuse_spec(parser, "no codec '%.*s'; there are %s", name.length, name.text, known);
}

static const struct wring_codec_ops *find_codec_in(const struct wring_codec_ops *const *list,
                                                   struct piece name)
{
    for (; list != NULL && *list != NULL; list++)
        if (is_word(name, (*list)->name))
            return *list;
    return NULL;
}

/** @return the library's table, or this codec's copy of an own one; NULL: there is none */
static const struct wring_codec_ops *find_ops(struct wring_codec *codec, struct piece name,
                                              const struct wring_codec_ops *const *own)
{
    const struct wring_codec_ops *ops = find_codec_in(wring_codec_list(), name);
    if (ops != NULL)
        return ops;
    ops = find_codec_in(own, name);
    return ops != NULL && wring_own_read(ops, &codec->read) ? &codec->read : NULL;
}

/** What is left cannot stand behind a suffix. */
static enum wring_status refuse_order(const struct parser *parser, const char *rest)
{
    return refuse_spec(parser,
                       "%s: '%s' stands behind a suffix; the order is "
                       "name:param=value/values+suffix",
                       parser->codec->ops->name, rest);
}

enum wring_status wring_spec_parse(struct wring_codec *codec, const char *spec,
                                   const struct wring_codec_ops *const *own, char *why,
                                   size_t why_bytes)
{
    struct parser parser = {.codec = codec, .why = why, .why_bytes = why_bytes};

    if (strlen(spec) >= WRING_CODEC_SPEC_MAX)
        return refuse_spec(&parser, "codec: longer than %d bytes", WRING_CODEC_SPEC_MAX - 1);

    const char *rest = spec;
    struct piece name = cut_piece(&rest, ":+/");
    codec->ops = codec->base = find_ops(codec, name, own);
    if (codec->ops == NULL)
        return refuse_codec(&parser, name, own);
    codec->info.flags = codec->ops->flags;
    for (size_t i = 0; i < codec->ops->n_params; i++)
        codec->params[i] = codec->ops->params[i].fallback;

    enum wring_status status = WRING_OK;
    while (*rest == ':' && status == WRING_OK)
        status = parse_param(&parser, &rest);
    if (*rest == '/' && status == WRING_OK)
        status = parse_values(&parser, &rest);
    while (*rest != '\0' && status == WRING_OK)
        status = *rest == '+' ? parse_suffix(&parser, &rest) : refuse_order(&parser, rest);
    return status;
}

static void write_word(char *text, size_t bytes, const char *words, double value)
{
    const char *rest = words;
    struct piece word = cut_piece(&rest, "|");
    for (int index = 0; index < (int)value; index++) {
        rest++;
        word = cut_piece(&rest, "|");
    }
    snprintf(text, bytes, "%.*s", word.length, word.text);
}

/** Append to codec->spec. @return false: there is no room */
__attribute__((format(printf, 2, 3))) static bool append_to_spec(struct wring_codec *codec,
                                                                 const char *format, ...)
{
    size_t used = strlen(codec->spec), room = sizeof(codec->spec) - used;
    va_list args;

    va_start(args, format);
    int bytes = vsnprintf(codec->spec + used, room, format, args);
    va_end(args);
    return (size_t)bytes < room;
}

/** A parameter that is not the default. @return false: there is no room */
static bool append_param(struct wring_codec *codec, const struct wring_codec_param *param,
                         double value)
{
    char text[40];

    if (value == param->fallback)
        return true;
    if (param->words != NULL)
        write_word(text, sizeof(text), param->words, value);
    else
        write_decimal(text, sizeof(text), value);
    return append_to_spec(codec, ":%s=%s", param->name, text);
}

static bool append_suffix(struct wring_codec *codec, size_t index)
{
    const struct suffix *suffix = &suffixes[index];

    if (!wring_codec_has_suffix(codec, (enum wring_suffix)index))
        return true;
    return append_to_spec(codec, "%s", suffix->name) &&
           (suffix->param == NULL ||
            append_param(codec, suffix->param, codec->suffix_params[index]));
}

enum wring_status wring_spec_write(struct wring_codec *codec, char *why, size_t why_bytes)
{
    const struct wring_codec_ops *ops = codec->ops;
    bool fits = append_to_spec(codec, "%s", ops->name);

    for (size_t i = 0; i < ops->n_params; i++)
        fits = fits && append_param(codec, &ops->params[i], codec->params[i]);
    if (codec->values != NULL)
        fits = fits && append_to_spec(codec, "/%.*s", (int)strcspn(codec->values->spec, "+"),
                                      codec->values->spec);
    for (size_t i = 0; i < WRING_SUFFIXES; i++)
        fits = fits && append_suffix(codec, i);
    if (fits)
        return WRING_OK;
    snprintf(why, why_bytes, "codec: longer than %d bytes", WRING_CODEC_SPEC_MAX - 1);
    return WRING_ERR_INVALID;
}

/* ---- pair ---- */

static uint64_t pair_unit(const struct wring_codec *codec)
{
    uint64_t in = codec->ways[0]->info.unit, out = codec->ways[1]->info.unit;
    return in > out ? in : out;
}

static size_t pair_bound(const struct wring_codec *codec, uint64_t elems)
{
    size_t in = wring_codec_bound(codec->ways[0], elems);
    size_t out = wring_codec_bound(codec->ways[1], elems);
    return in > out ? in : out;
}

/** Calls go to the codec of their way. */
static const struct wring_codec_ops pair_ops = {
    .name = "in>out",
    .doc = "one codec on the way in, another on the sum's way back",
    .unit = pair_unit,
    .bound = pair_bound,
};

/** The codec that spec[0, length) names. */
static enum wring_status create_way(const char *spec, size_t length, const char *tier,
                                    const struct wring_codec_ops *const *own, char *why,
                                    size_t why_bytes, struct wring_codec **out)
{
    char text[WRING_CODEC_SPEC_MAX];
    memcpy(text, spec, length);
    text[length] = '\0';
    return wring_codec_create_way(text, tier, own, false, why, why_bytes, out);
}

/** Only the way in may have rounds or state. */
static enum wring_status check_way_back(const struct wring_codec *codec, char *why,
                                        size_t why_bytes)
{
    const struct wring_codec_info *in = &codec->ways[0]->info, *out = &codec->ways[1]->info;

    if (out->rounds == 0 && out->states == 0)
        return WRING_OK;
    snprintf(why, why_bytes, "%s>%s: only the way in has %s; name another way back", in->spec,
             out->spec, out->rounds > 0 ? "rounds" : "state");
    return WRING_ERR_INVALID;
}

/** Shards and chunks begin at units of both. */
static enum wring_status check_units(const struct wring_codec *codec, char *why, size_t why_bytes)
{
    const struct wring_codec_info *in = &codec->ways[0]->info, *out = &codec->ways[1]->info;
    uint64_t large = in->unit > out->unit ? in->unit : out->unit;

    if (in->unit == 0 || out->unit == 0) {
        snprintf(why, why_bytes, "%s>%s: a codec of whole buckets has no second way; name just one",
                 in->spec, out->spec);
        return WRING_ERR_INVALID;
    }
    if (large % in->unit != 0 || large % out->unit != 0) {
        snprintf(why, why_bytes,
                 "%s>%s: blocks of %" PRIu64 " and %" PRIu64
                 " elements; make one a multiple of the other",
                 in->spec, out->spec, in->unit, out->unit);
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

static void describe_pair(struct wring_codec *codec)
{
    const struct wring_codec *in = codec->ways[0], *out = codec->ways[1];
    unsigned both = in->info.flags & out->info.flags, either = in->info.flags | out->info.flags;

    codec->ops = &pair_ops;
    codec->tier = in->tier < out->tier ? in->tier : out->tier;
    codec->info.name = pair_ops.name;
    codec->info.spec = codec->spec;
    codec->info.identity = codec->identity;
    codec->info.tier = wring_cpu_tier_name(codec->tier);
    codec->info.flags =
        WRING_CODEC_TWO_WAYS | (both & WRING_CODEC_UNBIASED) | (either & WRING_CODEC_FEEDBACK) |
        (in->info.flags &
         (WRING_CODEC_ALTERS | WRING_CODEC_OWN | WRING_CODEC_MATRIX | WRING_CODEC_VOTES));
    codec->info.rounds = in->info.rounds;
    codec->info.states = in->info.states;
    codec->info.unit = pair_unit(codec);
}

/** Both ways, each owned by the pair. */
static enum wring_status set_up_ways(struct wring_codec *codec, const char *spec, const char *tier,
                                     const struct wring_codec_ops *const *own, char *why,
                                     size_t why_bytes)
{
    size_t length = strcspn(spec, ">");
    const char *back = spec + length + 1;

    enum wring_status status = create_way(spec, length, tier, own, why, why_bytes, &codec->ways[0]);
    if (status == WRING_OK)
        status = create_way(back, strlen(back), tier, own, why, why_bytes, &codec->ways[1]);
    if (status == WRING_OK && strcmp(codec->ways[0]->spec, codec->ways[1]->spec) != 0)
        status = check_way_back(codec, why, why_bytes);
    if (status == WRING_OK)
        status = check_units(codec, why, why_bytes);
    if (status != WRING_OK)
        return status;
    int bytes = snprintf(codec->spec, sizeof(codec->spec), "%s>%s", codec->ways[0]->spec,
                         codec->ways[1]->spec);
    int identity = snprintf(codec->identity, sizeof(codec->identity), "%s>%s",
                            codec->ways[0]->identity, codec->ways[1]->identity);
    if ((size_t)bytes < sizeof(codec->spec) && (size_t)identity < sizeof(codec->identity))
        return WRING_OK;
    snprintf(why, why_bytes, "codec: longer than %d bytes", WRING_CODEC_SPEC_MAX - 1);
    return WRING_ERR_INVALID;
}

static enum wring_status check_pair_form(const char *spec, char *why, size_t why_bytes)
{
    const char *mark = strchr(spec, '>');
    const char *fault = NULL;

    if (strlen(spec) >= WRING_CODEC_SPEC_MAX) {
        snprintf(why, why_bytes, "codec: longer than %d bytes", WRING_CODEC_SPEC_MAX - 1);
        return WRING_ERR_INVALID;
    }
    if (mark == spec || mark[1] == '\0')
        fault = "needs a codec on both sides of '>'";
    else if (strchr(mark + 1, '>') != NULL)
        fault = "there is one way in and one back; name two codecs";
    if (fault == NULL)
        return WRING_OK;
    snprintf(why, why_bytes, "%s: %s", spec, fault);
    return WRING_ERR_INVALID;
}

enum wring_status wring_pair_create(const char *spec, const char *tier,
                                    const struct wring_codec_ops *const *own, char *why,
                                    size_t why_bytes, struct wring_codec **out)
{
    enum wring_status status = check_pair_form(spec, why, why_bytes);
    if (status != WRING_OK)
        return status;
    struct wring_codec *codec = calloc(1, sizeof(*codec));
    if (codec == NULL) {
        snprintf(why, why_bytes, "%s", wring_status_text(WRING_ERR_NO_MEMORY));
        return WRING_ERR_NO_MEMORY;
    }
    status = set_up_ways(codec, spec, tier, own, why, why_bytes);
    if (status == WRING_OK && strcmp(codec->ways[0]->spec, codec->ways[1]->spec) != 0) {
        describe_pair(codec);
        *out = codec;
        return WRING_OK;
    }
    if (status == WRING_OK) { /* the same both ways */
        *out = codec->ways[0];
        codec->ways[0] = NULL;
    }
    wring_codec_destroy(codec);
    return status;
}

void wring_pair_finish(struct wring_codec *codec)
{
    wring_codec_destroy(codec->ways[0]);
    wring_codec_destroy(codec->ways[1]);
}
