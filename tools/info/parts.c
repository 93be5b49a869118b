/* SPDX-License-Identifier: Apache-2.0 */
/** What this build brings: providers, codecs, kernels, settings. */
#include <string.h>

#include "base/cpu.h"
#include "tools/info/info.h"
#include <wring/codec.h>
#include <wring/provider.h>

static json_t *describe_provider(const struct wring_provider_ops *ops)
{
    char reason[256] = "";
    bool available = ops->probe(reason, sizeof(reason)) == WRING_OK;

    return json_pack("{s:s, s:b, s:s, s:s}", "name", ops->name, "available", available, "reason",
                     available ? "" : reason, "doc", ops->doc);
}

json_t *wring_info_providers(void)
{
    json_t *providers = json_array();

    for (const struct wring_provider_ops *const *ops = wring_provider_list(); *ops != NULL; ops++)
        json_array_append_new(providers, describe_provider(*ops));
    return providers;
}

/** A word for a choice, else a number. */
static json_t *param_value(const struct wring_codec_param *param, double value)
{
    const char *word = param->words;

    if (word == NULL)
        return json_real(value);
    for (int skip = (int)value; skip > 0 && word != NULL; skip--) {
        word = strchr(word, '|');
        word = word != NULL ? word + 1 : NULL;
    }
    return word != NULL ? json_stringn(word, strcspn(word, "|")) : json_null();
}

static json_t *describe_param(const struct wring_codec_param *param)
{
    json_t *json = json_pack("{s:s, s:o, s:s}", "name", param->name, "default",
                             param_value(param, param->fallback), "doc", param->doc);

    if (json == NULL)
        return NULL;
    if (param->words != NULL) {
        json_object_set_new(json, "words", json_string(param->words));
    } else {
        json_object_set_new(json, "min", json_real(param->min));
        json_object_set_new(json, "max", json_real(param->max));
    }
    return json;
}

static json_t *describe_codec(const struct wring_codec_ops *ops, const char *tier)
{
    struct wring_codec *codec;
    json_t *params = json_array();

    if (wring_codec_create(ops->name, tier, NULL, NULL, 0, &codec) != WRING_OK) {
        json_decref(params);
        return NULL;
    }
    const struct wring_codec_info *info = wring_codec_info(codec);
    for (size_t i = 0; i < ops->n_params; i++)
        json_array_append_new(params, describe_param(&ops->params[i]));
    json_t *json =
        json_pack("{s:s, s:s, s:b, s:b, s:b, s:i, s:I, s:s, s:o}", "name", ops->name, "tier",
                  info->tier, "summable", (info->flags & WRING_CODEC_SUMMABLE) != 0, "unbiased",
                  (info->flags & WRING_CODEC_UNBIASED) != 0, "exact",
                  (info->flags & WRING_CODEC_EXACT) != 0, "rounds", (int)info->rounds, "unit",
                  (json_int_t)info->unit, "doc", ops->doc, "params", params);
    wring_codec_destroy(codec);
    return json;
}

json_t *wring_info_codecs(const struct wring_config *config)
{
    json_t *codecs = json_array();

    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++)
        json_array_append_new(codecs, describe_codec(*ops, config->cpu));
    return codecs;
}

json_t *wring_info_kernels(const struct wring_config *config)
{
    json_t *tiers = json_array();
    enum wring_cpu_tier asked;

    for (int tier = 0; tier < WRING_CPU_TIERS; tier++)
        if (wring_cpu_has((enum wring_cpu_tier)tier))
            json_array_append_new(tiers,
                                  json_string(wring_cpu_tier_name((enum wring_cpu_tier)tier)));
    bool usable = wring_cpu_tier_parse(config->cpu, &asked) && wring_cpu_has(asked);
    return json_pack("{s:s, s:s, s:s?, s:o}", "asked", config->cpu, "best",
                     wring_cpu_tier_name(wring_cpu_best()), "chosen",
                     usable ? wring_cpu_tier_name(asked) : NULL, "runnable", tiers);
}

/** All variables at their defaults. */
static void set_defaults(struct wring_config *config)
{
    size_t n;
    const struct wring_config_var *vars = wring_config_vars(&n);

    memset(config, 0, sizeof(*config));
    for (size_t i = 0; i < n; i++)
        wring_config_set(config, NULL, vars[i].name, vars[i].fallback);
}

json_t *wring_info_config(const struct wring_config *config)
{
    json_t *list = json_array();
    size_t n;
    const struct wring_config_var *vars = wring_config_vars(&n);
    struct wring_config defaults;

    set_defaults(&defaults);
    for (size_t i = 0; i < n; i++) {
        char value[WRING_CONFIG_ROOT], usual[WRING_CONFIG_ROOT];
        wring_config_show(config, &vars[i], value, sizeof(value));
        wring_config_show(&defaults, &vars[i], usual, sizeof(usual));
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:s, s:s, s:b, s:s}", "name", vars[i].name,
                                        "value", wring_json_text(value), "default",
                                        vars[i].fallback, "unit", vars[i].unit, "changed",
                                        strcmp(value, usual) != 0, "doc", vars[i].meaning));
    }
    return list;
}
