/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_survey.h"

#include <stdlib.h>

void wring_verbs_survey_finish(struct verbs_survey *survey)
{
    free(survey->table.ports);
    free(survey->why);
    *survey = (struct verbs_survey){0};
}
