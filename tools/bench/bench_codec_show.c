/* SPDX-License-Identifier: Apache-2.0 */
/** What `wring bench codec` found, as JSON and for people. */
#include "tools/bench/bench_codec.h"
#include "tools/table.h"

static const char *stores(bool stream)
{
    return stream ? "streaming" : "plain";
}

json_t *wring_codec_speed_json(const char *spec, const char *tier, uint64_t elems,
                               const struct wring_codec_speed *speed)
{
    double bytes = (double)elems * sizeof(float);

    return json_pack(
        "{s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:s, s:s, s:i}", "codec",
        spec, "tier", tier, "elements", (json_int_t)elems, "encode_gb_per_s", speed->encode,
        "decode_gb_per_s", speed->decode, "decode_add_gb_per_s", speed->decode_add,
        "encode_limit_gb_per_s", speed->encode_limit, "decode_add_limit_gb_per_s",
        speed->decode_add_limit, "memcpy_gb_per_s", speed->copy, "encoded_bytes",
        (json_int_t)speed->encoded_bytes, "ratio", (double)speed->encoded_bytes / bytes, "nmse",
        speed->nmse, "encode_limit_stores", stores(speed->encode_streams),
        "decode_add_limit_stores", stores(speed->decode_add_streams), "rounds", (int)speed->rounds);
}

static double number(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void add_share(struct wring_table *table, double speed, double limit)
{
    wring_table_cell(table, "%.0f%%", limit > 0 ? 100 * speed / limit : 0);
}

void wring_codec_speed_show(FILE *file, json_t *results)
{
    static const struct wring_table_column columns[] = {
        {"codec", WRING_ALIGN_LEFT},     {"kernels", WRING_ALIGN_LEFT},
        {"encode", WRING_ALIGN_RIGHT},   {"of limit", WRING_ALIGN_RIGHT},
        {"decode", WRING_ALIGN_RIGHT},   {"add", WRING_ALIGN_RIGHT},
        {"of limit", WRING_ALIGN_RIGHT}, {"memcpy", WRING_ALIGN_RIGHT},
        {"ratio", WRING_ALIGN_RIGHT},    {"nmse", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 10);
    json_t *result;
    size_t i;

    json_array_foreach(results, i, result)
    {
        double encode = number(result, "encode_gb_per_s");
        double add = number(result, "decode_add_gb_per_s");
        wring_table_cell(table, "%s", json_string_value(json_object_get(result, "codec")));
        wring_table_cell(table, "%s", json_string_value(json_object_get(result, "tier")));
        wring_table_cell(table, "%.2f", encode);
        add_share(table, encode, number(result, "encode_limit_gb_per_s"));
        wring_table_cell(table, "%.2f", number(result, "decode_gb_per_s"));
        wring_table_cell(table, "%.2f", add);
        add_share(table, add, number(result, "decode_add_limit_gb_per_s"));
        wring_table_cell(table, "%.2f", number(result, "memcpy_gb_per_s"));
        wring_table_cell(table, "%.4f", number(result, "ratio"));
        wring_table_cell(table, "%.3g", number(result, "nmse"));
    }
    wring_table_finish(table, file);
}
