/* SPDX-License-Identifier: Apache-2.0 */
/** Profiles written as files. docs/planner-files.md has the fields. */
#include "planner/files/json_cost.h"
#include "planner/files/json_writer.h"
#include "planner/files/profile.h"
#include "planner/files/profile_errors.h"
#include "planner/files/profile_links.h"
#include "planner/files/profile_ways.h"

/** "decode_add_us" too, where it is known by itself. @return 0; else there is no memory */
static int put_adding(json_t *value, const struct wring_cost *us,
                      const struct wring_profile_trust *trust)
{
    if (us->n == 0)
        return 0;
    return json_object_set_new(value, "decode_add_us", wring_profile_cost_json(us, trust));
}

/** Codings by place; @return NULL without memory */
static json_t *places_to_json(const struct wring_profile_coding *codings)
{
    json_t *object = json_object();

    for (int place = 0; place < WRING_PLACES; place++) {
        if (!codings[place].present)
            continue;
        json_t *value = json_pack(
            "{s:o, s:o}", "encode_us",
            wring_profile_cost_json(&codings[place].encode_us, &codings[place].encode_trust),
            "decode_us",
            wring_profile_cost_json(&codings[place].decode_us, &codings[place].decode_trust));
        int failed = put_adding(value, &codings[place].decode_add_us,
                                &codings[place].decode_add_trust); /* NULL is refused */
        if (json_object_set_new(object, wring_place_name((enum wring_place)place), value) != 0 ||
            failed != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *coders_to_json(const struct wring_profile_codec *codec)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < codec->n_coders; i++) {
        const struct wring_profile_coder *coder = &codec->coders[i];
        json_t *value = json_pack(
            "{s:i, s:s, s:o, s:o}", "cores", (int)coder->cores, "tier", coder->tier, "encode_us",
            wring_profile_cost_json(&coder->encode.us, &coder->encode.trust), "decode_us",
            wring_profile_cost_json(&coder->decode.us, &coder->decode.trust));
        int failed = put_adding(value, &coder->decode_add.us, &coder->decode_add.trust);
        if (json_array_append_new(list, value) != 0 || failed != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *codecs_to_json(const struct wring_profile *profile)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        const struct wring_profile_codec *codec = &profile->codecs[i];
        json_t *value = json_pack(
            "{s:s, s:b, s:b, s:o, s:o, s:o, s:o}", "spec", codec->spec, "summable",
            (int)codec->summable, "feedback", (int)codec->feedback, "nmse",
            wring_json_number(codec->nmse), "wire_bytes", wring_json_cost(&codec->wire_bytes), "at",
            places_to_json(codec->at), "two_level", places_to_json(codec->two_level));
        int failed = 0;
        if (value != NULL && codec->n_coders > 0)
            failed = json_object_set_new(value, "coders", coders_to_json(codec));
        if (json_array_append_new(list, value) != 0 || failed != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

enum wring_status wring_profile_save(const struct wring_profile *profile, FILE *file)
{
    json_t *object = json_pack(
        "{s:s, s:i, s:s, s:s, s:s, s:i, s:i, s:b, s:o, s:o}", "format", WRING_PROFILE_FORMAT,
        "version", WRING_PROFILE_VERSION, "name", profile->name, "machine", profile->machine,
        "source", profile->source, "nodes", (int)profile->nodes, "ranks_per_node",
        (int)profile->ranks_per_node, "chunked", (int)profile->chunked, "links",
        wring_profile_links_json(profile), "codecs", codecs_to_json(profile));
    int failed = object == NULL;

    if (!failed && profile->copy_us.n > 0)
        failed = json_object_set_new(
            object, "copy_us", wring_profile_cost_json(&profile->copy_us, &profile->copy_trust));
    if (!failed && profile->computing.present)
        failed = json_object_set_new(object, "computing",
                                     wring_profile_computing_json(&profile->computing));
    if (!failed && profile->n_ways > 0)
        failed = json_object_set_new(object, "ways", wring_profile_ways_json(profile));
    if (!failed && profile->errors.n_codecs > 0)
        failed = json_object_set_new(object, "errors", wring_profile_errors_json(&profile->errors));
    if (failed != 0) {
        json_decref(object);
        object = NULL;
    }
    return wring_json_write(file, object);
}
