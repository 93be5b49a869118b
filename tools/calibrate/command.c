/* SPDX-License-Identifier: Apache-2.0 */
/** wring calibrate: measure links, codecs and whole collectives, and write a profile. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "tools/bench/bench.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"
#include "tools/output.h"
#include "tools/plan/planning.h"
#include "tools/values.h"

/** How many there are to measure, 1 or more. */
static uint32_t calibrate_tunings(const struct wring_calibrate_params *params)
{
    const struct wring_tunings_wanted *tunings = &params->tunings;

    return (tunings->n_cores > 0 ? tunings->n_cores : 1) *
           (tunings->n_chunks > 0 ? tunings->n_chunks : 1);
}

/* ---- command ---- */

enum {
    OPTION_JSON = 0x100,
    OPTION_INTO,
    OPTION_NAME,
    OPTION_SECONDS,
    OPTION_ELEMENTS,
    OPTION_DOUBT,
    OPTION_FRESH,
    OPTION_GRADIENTS,
    OPTION_CORES,
    OPTION_CHUNKS,
    OPTION_PART,
    OPTION_CODING,
};

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "the profile; what it holds already is not measured again", 0},
    {"into", OPTION_INTO, "FILE", 0, "the same, of a file that must be there", 0},
    {"ranks", 'n', "N", 0, "ranks, started on this host unless a launcher did (default 2)", 0},
    {"provider", 'p', "NAME", 0, "transport provider (default: WRING_PROVIDER)", 0},
    {"codec", 'c', "LIST", 0,
     "measure these, whether the file has them or not (default: what it lacks of none, bf16, "
     "fp16, int8, onebit+ef and topk:ratio=0.01+ef, and the coding, but no collectives, of "
     "lossless, "
     "int8+ef, onebit and topk:ratio=0.01)",
     0},
    {"coding", OPTION_CODING, "LIST", 0,
     "measure the coding, but no collectives, of these as well, or of all codecs that there are",
     0},
    {"seconds", OPTION_SECONDS, "S", 0, "for all of it, about (default 36)", 0},
    {"elements", OPTION_ELEMENTS, "N", 0,
     "of the largest bucket, up to the default 16m; suffixes k and m", 0},
    {"doubt", OPTION_DOUBT, "PERCENT", 0,
     "of a curve's points that may be in doubt before it is left out, and of all points before "
     "nothing is written (default 25)",
     0},
    {"gradients", OPTION_GRADIENTS, "FILE", 0,
     "measure what codecs lose of these, and how long codes of lossless are, which wring demo "
     "--record-gradients wrote",
     0},
    {"cores", OPTION_CORES, "LIST", 0,
     "measure collectives with so many cores pinned for codecs in each rank, 0 for none (default: "
     "as "
     "WRING_EXECUTOR says)",
     0},
    {"chunk-bytes", OPTION_CHUNKS, "LIST", 0,
     "and in pieces so large, of each number of cores; suffixes k and m (default: as "
     "WRING_CHUNK_BYTES says)",
     0},
    {"part", OPTION_PART, "N", OPTION_HIDDEN, "of these tunings the one to measure now", 0},
    {"name", OPTION_NAME, "NAME", 0, "of a new profile (default: calibrated)", 0},
    {"fresh", OPTION_FRESH, NULL, 0, "begin anew, whatever the file holds", 0},
    {"json", OPTION_JSON, NULL, 0, "print the profile, as it is written", 0},
    {0},
};

struct command {
    struct wring_calibrate_params params;
    bool told;    /* which part of it */
    char *coding; /* as given; NULL: nothing was */
    bool json;
};

static void parse_codecs(struct command *command, char *arg, struct argp_state *state)
{
    struct wring_calibrate_params *params = &command->params;

    params->n_codecs =
        wring_value_option_list("--codec", arg, params->codecs, WRING_CALIBRATE_CODECS_MAX, state);
    if (params->n_codecs == 0 || params->n_codecs > WRING_CALIBRATE_CODECS_MAX)
        argp_error(state, "--codec needs 1 to %d specs", WRING_CALIBRATE_CODECS_MAX);
    for (size_t i = 0; i < params->n_codecs; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(params->codecs[i], params->codecs[j]) == 0)
                argp_error(state, "--codec names %s twice", params->codecs[i]);
    params->codecs_given = true;
}

static void add_coded(struct wring_calibrate_params *params, const char *spec,
                      struct argp_state *state)
{
    struct wring_calibrate_coded *coded = &params->coded;
    bool known = strcmp(spec, "none") == 0; /* that takes no time */

    for (uint32_t i = 0; i < coded->n; i++)
        known = known || strcmp(coded->specs[i], spec) == 0;
    if (known)
        return;
    if (strlen(spec) >= WRING_CODEC_SPEC_MAX)
        argp_error(state, "--coding: '%s' is no spec", spec);
    else if (coded->n == WRING_CALIBRATE_CODED_MAX)
        argp_error(state, "--coding takes up to %d specs", WRING_CALIBRATE_CODED_MAX);
    else
        snprintf(coded->specs[coded->n++], WRING_CODEC_SPEC_MAX, "%s", spec);
}

/** Those that are named, or else some by default; and the codecs whose collectives are measured. */
static void list_coded(struct command *command, struct argp_state *state)
{
    char usual[] = "lossless,bf16,fp16,int8,int8+ef,onebit,onebit+ef,topk:ratio=0.01,"
                   "topk:ratio=0.01+ef";
    struct wring_calibrate_params *params = &command->params;
    bool by_default = !params->codecs_given && command->coding == NULL;
    char *list = by_default ? usual : command->coding, *specs[WRING_CALIBRATE_CODED_MAX];
    size_t n = 0;

    if (list != NULL && strcmp(list, "all") == 0)
        wring_calibrate_list_all(&params->coded);
    else if (list != NULL)
        n = wring_value_option_list("--coding", list, specs, WRING_CALIBRATE_CODED_MAX, state);
    if (n > WRING_CALIBRATE_CODED_MAX)
        argp_error(state, "--coding takes up to %d specs", WRING_CALIBRATE_CODED_MAX);
    for (size_t i = 0; i < n && i < WRING_CALIBRATE_CODED_MAX; i++)
        add_coded(params, specs[i], state);
    params->coded_again = by_default ? 0 : params->coded.n;
    for (size_t i = 0; i < params->n_codecs; i++)
        add_coded(params, params->codecs[i], state);
    if (params->codecs_given)
        params->coded_again = params->coded.n;
}

static void check_output(const struct command *command, struct argp_state *state)
{
    if (command->params.into == NULL && !command->json)
        argp_error(state, "-o FILE is needed, or --json");
    if (command->params.into == NULL && calibrate_tunings(&command->params) > 1)
        argp_error(state, "several tunings need -o FILE, which each is added to");
    if (command->params.must_exist && command->params.fresh)
        argp_error(state, "--into adds to a file, --fresh begins anew: one of them");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct command *command = state->input;
    struct wring_calibrate_params *params = &command->params;

    switch (key) {
    case OPTION_INTO:
    case 'o':
        params->into = arg;
        params->must_exist = key == OPTION_INTO;
        return 0;
    case 'n':
        if (!wring_value_count(arg, 2, WRING_PATTERN_RANKS_MAX, &params->ranks))
            argp_error(state, "--ranks needs a number from 2 to %d", WRING_PATTERN_RANKS_MAX);
        return 0;
    case 'p':
        params->provider = arg;
        return 0;
    case 'c':
        parse_codecs(command, arg, state);
        return 0;
    case OPTION_CODING:
        command->coding = arg;
        return 0;
    case OPTION_SECONDS:
        if (!wring_value_real(arg, 0.1, 3600, &params->seconds))
            argp_error(state, "--seconds needs a number from 0.1 to 3600");
        return 0;
    case OPTION_ELEMENTS:
        if (!wring_value_bytes(arg, &params->max_elems) || params->max_elems < 4096 ||
            params->max_elems > 16u << 20)
            argp_error(state, "--elements needs a number from 4k to 16m");
        return 0;
    case OPTION_DOUBT:
        if (!wring_value_real(arg, 0, 100, &params->doubtful_max))
            argp_error(state, "--doubt needs a percentage, from 0 to 100");
        params->doubtful_max /= 100;
        return 0;
    case OPTION_GRADIENTS:
        params->gradients = arg;
        return 0;
    case OPTION_NAME:
        params->profile_name = arg;
        if (arg[0] == '\0' || strlen(arg) > 63)
            argp_error(state, "--name needs 1 to 63 bytes");
        return 0;
    case OPTION_CORES:
        wring_tunings_parse_cores(&params->tunings, arg, state);
        return 0;
    case OPTION_CHUNKS:
        wring_tunings_parse_chunks(&params->tunings, arg, state);
        return 0;
    case OPTION_PART:
        command->told = true;
        if (!wring_value_count(arg, 0, WRING_TUNINGS_MAX - 1, &params->part))
            argp_error(state, "--part needs a number");
        return 0;
    case OPTION_FRESH:
        params->fresh = true;
        return 0;
    case OPTION_JSON:
        command->json = true;
        return 0;
    case ARGP_KEY_END:
        list_coded(command, state);
        check_output(command, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp calibrate_argp = {
    .options = options,
    .parser = parse_option,
    .doc =
        "Measure what puts, links, codecs and whole collectives take here, for wring plan."
        "\v"
        "The ranks are those of the job to plan for: started here, or by a launcher on its "
        "hosts. Samples are taken in turns, in each of which all is measured once; medians "
        "count, of "
        "whole collectives means, and how far they can be trusted is written beside them. A point "
        "is in doubt where its value is not known to 25 %; those have more samples while there "
        "is time. A curve with "
        "more than --doubt of its points in doubt is left out, and a line says what measures it "
        "again. Without links, copies or raw collectives nothing is written, nor if "
        "more than --doubt of all points are in doubt.",
};

/** Specs are refused before any rank starts. */
static bool are_codecs(const struct wring_calibrate_params *params)
{
    for (uint32_t i = 0; i < params->coded.n; i++) {
        const char *spec = params->coded.specs[i];
        struct wring_codec *codec;
        char reason[256] = "";
        if (wring_codec_create(spec, NULL, NULL, reason, sizeof(reason), &codec) != WRING_OK) {
            wring_fail(params->name, "codec %s: %s", spec, reason);
            return false;
        }
        wring_codec_destroy(codec);
    }
    return true;
}

/** In rank 0. */
static int give_profile(const struct command *command, const struct wring_profile *profile)
{
    int code = WRING_EXIT_OK;

    if (command->params.into != NULL)
        code = wring_calibrate_write(&command->params, profile);
    if (code != WRING_EXIT_OK || command->params.part + 1 < command->params.parts)
        return code; /* it is given when it is complete */
    if (command->json)
        return wring_profile_save(profile, stdout) == WRING_OK ? WRING_EXIT_OK
                                                               : wring_output_failed();
    wring_profile_show(stdout, profile);
    return WRING_EXIT_OK;
}

/** Ranks for each tuning, one after the other. @param argv  [argc], as given */
static int start_ranks(const struct wring_calibrate_params *params, int argc, char **argv)
{
    static const char *const words[] = {"calibrate", NULL};
    uint32_t ranks = params->ranks > 0 ? params->ranks : 2;
    char **more = calloc((size_t)argc + 2, sizeof(*more)), part[32];
    int code = WRING_EXIT_OK;

    if (more == NULL)
        return wring_fail(params->name, "out of memory");
    memcpy(more, argv, (size_t)argc * sizeof(*more));
    more[argc] = part;
    for (uint32_t i = 0; i < params->parts && code == WRING_EXIT_OK; i++) {
        snprintf(part, sizeof(part), "--part=%u", i);
        code = wring_start_ranks(params->name, words, ranks, argc + 1, more);
    }
    free(more);
    return code;
}

/** The ranks of one tuning: their share of the time, and the file as the ones before left it. */
static int prepare_part(struct command *command)
{
    struct wring_calibrate_params *params = &command->params;

    if (params->parts > 1 && !command->told)
        return wring_fail(params->name,
                          "under a launcher one tuning is measured at a time: give one "
                          "of --cores, one of --chunk-bytes, and --into FILE");
    if (params->part >= params->parts)
        return wring_fail(params->name, "there are %u tunings, no part %u", params->parts,
                          params->part);
    params->seconds /= params->parts;
    params->must_exist = params->must_exist || params->part > 0;
    params->fresh = params->fresh && params->part == 0;
    return WRING_EXIT_OK;
}

/** As one rank of a job, or as the one who starts the ranks. */
static int run_ranks(struct command *command, int argc, char **argv)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct wring_profile *profile = NULL;
    struct wring_config config;
    struct wring_launched launched;

    if (wring_config_load(&config, &log) != WRING_OK || !are_codecs(&command->params))
        return WRING_EXIT_FAILURE; /* which was said */
    command->params.parts = calibrate_tunings(&command->params);
    if (wring_command_launched(&config, &launched) != WRING_EXIT_OK)
        return WRING_EXIT_FAILURE;
    if (launched.name == NULL)
        return command->params.into == NULL ||
                       wring_output_check(argv[0], command->params.into) == WRING_EXIT_OK
                   ? start_ranks(&command->params, argc, argv)
                   : WRING_EXIT_FAILURE;
    int code = prepare_part(command);
    if (code == WRING_EXIT_OK)
        code = wring_calibrate_rank(&command->params, &profile);
    if (code == WRING_EXIT_OK && profile != NULL)
        code = give_profile(command, profile);
    wring_profile_destroy(profile);
    return code;
}

int wring_cmd_calibrate(int argc, char **argv)
{
    char codecs[] = "none,bf16,fp16,int8,onebit+ef,topk:ratio=0.01+ef";
    struct command command = {.params = {.name = argv[0],
                                         .profile_name = "calibrated",
                                         .seconds = 36,
                                         .max_elems = 16u << 20,
                                         .doubtful_max = 0.25}};
    char **given = wring_arguments_copy(argc, argv);

    if (given == NULL)
        return wring_fail(argv[0], "out of memory");
    command.params.n_codecs =
        wring_value_list(codecs, command.params.codecs, WRING_CALIBRATE_CODECS_MAX);
    error_t error = argp_parse(&calibrate_argp, argc, argv, 0, NULL, &command);
    int code =
        error == 0 ? run_ranks(&command, argc, given) : wring_fail(argv[0], "%s", strerror(error));
    wring_arguments_free(argc, given);
    return code;
}
