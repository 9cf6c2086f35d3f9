/* A key-value store's descriptor: a new manifest, CURRENT that names it, then the old manifest goes. */
#include "corpus.h"

static void prepare(void)
{
    put("MANIFEST-1", "one", 1);
    put("CURRENT", "MANIFEST-1", 1);
}

static void run(void)
{
    put("MANIFEST-2", "two", 1);
    if (!wrong)
        sync_folder("");
    put("2.dbtmp", "MANIFEST-2", 1);
    must(!rename(in("2.dbtmp"), in("CURRENT")));
    if (!wrong)
        sync_folder("");
    unlink(in("MANIFEST-1"));
}

static int accepts(int acknowledged)
{
    char name[20] = "";
    (void)acknowledged;
    get("CURRENT", name, 19);
    return holds(name, name[9] == '1' ? "one" : "two");
}

PROGRAM("manifest")
