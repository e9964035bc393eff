#include "base/version.h"

#include <lockstep_git.h>     /* made by the build */

/* The three macros are given by the build, for this file only. */
const char *lsi_version(void)
{
    return LOCKSTEP_VERSION;
}

const char *lsi_version_git(void)
{
    return LOCKSTEP_GIT;
}

const char *lsi_version_compiler(void)
{
    return LOCKSTEP_COMPILER;
}
