/*
 * A B-tree in transactions, in the manner of PMDK's example btree_map: nodes of up to three keys; a full node is split on
 * the way down, so that there is room in its parent.
 *
 * The bugs are additions to the transaction that are missing or come too late. In create_split_node one was missing in
 * PMDK itself (found by PMTest; Witcher's W40); the others are patches of XFDetector and PMTest.
 */
#include "undo.h"

enum { FIXED, SPLIT_NODE, ROOT_POINTER, INSERT_ITEM, ADD_AFTER };
static const struct variant VARIANTS[] = {
    {"fixed", "correct"},
    {"split-node", "PMDK btree W40 (btree_map.c:201, PMTest): create_split_node does not add the node that it splits"},
    {"root-pointer", "XFDetector btree race: the pointer to the root changes and is not added"},
    {"insert-item", "XFDetector rbtree race1, PMTest: an item goes into a node that was not added"},
    {"add-after", "XFDetector ctree race1: the node is added after it was written"},
};

enum { KEYS = 3 };

struct item {
    uint32_t key, value;
};

/* One line. */
struct node {
    uint64_t keys;
    struct item item[KEYS];
    uint64_t child[KEYS + 1];
};

struct root {
    uint64_t node;
    char rest[LINE - 8];
    struct tx_log log;
};

static const struct operation OPERATIONS[] = {
    {'i', 50}, {'i', 20}, {'i', 80}, {'i', 10}, {'u', 20}, {'i', 40}, {'i', 30}, {'i', 70},
    {'i', 60}, {'i', 90}, {'u', 80}, {'i', 15}, {'i', 45}, {'i', 5},
};

static struct root *root(void)
{
    return (struct root *)at(ROOT, sizeof(struct root));
}

static struct node *node(uint64_t offset)
{
    struct node *n = (struct node *)at(offset, sizeof *n);
    if (n->keys > KEYS)
        wrong("a node of %llu keys", (unsigned long long)n->keys);
    return n;
}

static uint64_t make_node(void)
{
    const uint64_t offset = allocate(sizeof(struct node));
    tx_fresh(pool + offset, sizeof(struct node));
    return offset;
}

static void set_root(uint64_t offset)
{
    if (variant != ROOT_POINTER)
        tx_add(&root()->node, sizeof root()->node);
    SET(root()->node, offset);
}

/* Splits the full node that is `place`-th child of `parent`; the middle item goes there. */
static void split(struct node *parent, unsigned place)
{
    struct node *n = node(parent->child[place]);
    const uint64_t offset = make_node();
    struct node *right = node(offset);
    unsigned i;
    if (variant != SPLIT_NODE)
        tx_add(n, sizeof *n);
    tx_add(parent, sizeof *parent);
    right->keys = 1;
    right->item[0] = n->item[2];
    right->child[0] = n->child[2];
    right->child[1] = n->child[3];
    for (i = (unsigned)parent->keys; i > place; i--) {
        parent->item[i] = parent->item[i - 1];
        parent->child[i + 1] = parent->child[i];
    }
    parent->item[place] = n->item[1];
    parent->child[place + 1] = offset;
    parent->keys++;
    n->keys = 1;
}

static void insert(uint64_t key, uint64_t value)
{
    struct node *n;
    unsigned i;
    if (!root()->node)
        set_root(make_node());
    if (node(root()->node)->keys == KEYS) {
        const uint64_t offset = make_node();
        node(offset)->child[0] = root()->node;
        set_root(offset);
        split(node(offset), 0);
    }
    for (n = node(root()->node);; n = node(n->child[i])) {
        for (i = 0; i < n->keys && n->item[i].key < key; i++)
            ;
        if (!n->child[i])
            break;
        if (node(n->child[i])->keys == KEYS) {
            split(n, i);
            i += n->item[i].key < key;
        }
    }
    if (variant != INSERT_ITEM && variant != ADD_AFTER)
        tx_add(n, sizeof *n);
    memmove(&n->item[i + 1], &n->item[i], (size_t)(n->keys - i) * sizeof n->item[0]);
    n->item[i].key = (uint32_t)key;
    n->item[i].value = (uint32_t)value;
    n->keys++;
    if (variant == ADD_AFTER)
        tx_add(n, sizeof *n);
}

static struct item *find(uint64_t key)
{
    uint64_t offset = root()->node;
    while (offset) {
        struct node *n = node(offset);
        unsigned i;
        for (i = 0; i < n->keys && n->item[i].key < key; i++)
            ;
        if (i < n->keys && n->item[i].key == key)
            return &n->item[i];
        offset = n->child[i];
    }
    return NULL;
}

static void run(void)
{
    size_t i;
    pool_create(sizeof(struct root));
    tx_log = &root()->log;
    pool_ready();
    for (i = 0; i < COUNT(OPERATIONS); i++) {
        const uint64_t key = OPERATIONS[i].key;
        sl_region_begin(i + 1);
        if (OPERATIONS[i].kind == 'i') {
            insert(key, value_of(key, i + 1));
        } else {
            tx_add(find(key), sizeof(struct item));
            find(key)->value = (uint32_t)value_of(key, i + 1);
        }
        tx_commit();
        sl_region_end(i + 1);
    }
}

/* Every key is in order and known, and all leaves are equally deep. Returns how deep. */
static int walk(uint64_t offset, uint64_t *last, int depth)
{
    const struct node *n;
    unsigned i;
    int below = 0, first = -1;
    if (!offset)
        return 0;
    if (depth > 8)
        wrong("the tree is too deep");
    n = node(offset);
    if (!n->keys)
        wrong("a node is empty");
    for (i = 0; i <= n->keys; i++) {
        below = walk(n->child[i], last, depth + 1);
        if (first >= 0 && below != first)
            wrong("leaves are not equally deep");
        first = below;
        if (i == n->keys)
            break;
        if (n->item[i].key <= *last || !is_known(OPERATIONS, COUNT(OPERATIONS), n->item[i].key))
            wrong("key %u is out of order, or was never inserted", n->item[i].key);
        *last = n->item[i].key;
    }
    return below + 1;
}

static void check(void)
{
    uint64_t last = 0, key;
    tx_log = &root()->log;
    tx_recover();
    walk(root()->node, &last, 0);
    for (key = 1; key <= 90; key++)
        if (is_known(OPERATIONS, COUNT(OPERATIONS), key))
            check_key(OPERATIONS, COUNT(OPERATIONS), key, find(key) ? find(key)->value : 0);
}

MAIN(run, check)
