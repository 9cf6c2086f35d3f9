/*
 * RB-tree: a red-black tree under one lock, as Cormen, Leiserson, Rivest and Stein have it. An operation
 * takes a random key: it deletes it if it is there, and inserts it if not.
 */
#include "sfr.h"

struct node {
    struct node *parent, *child[2];
    uint64_t red, key;
    uint64_t words[];
};

struct tree {
    struct node *top, *nil;
    uint64_t count;
};

static struct lock *locks;

static uint64_t node_bytes(void)
{
    return sizeof(struct node) + options.stores * 8;
}

static uint64_t bytes(void)
{
    return (64u << 20) + 4 * (options.size + 1000) * (node_bytes() + 64);
}

static struct tree *tree(void)
{
    return root->data;
}

/* Which child of its parent a node is. */
static int side(const struct node *node)
{
    return node == node->parent->child[1];
}

/* Where `node` hangs, `other` hangs from here on. */
static void replace(struct tree *t, struct node *node, struct node *other)
{
    if (node->parent == t->nil)
        t->top = other;
    else
        node->parent->child[side(node)] = other;
    other->parent = node->parent;
}

/* The node's child on the other side comes above it. */
static void rotate(struct tree *t, struct node *node, int to)
{
    struct node *up = node->child[!to];
    node->child[!to] = up->child[to];
    if (up->child[to] != t->nil)
        up->child[to]->parent = node;
    replace(t, node, up);
    up->child[to] = node;
    node->parent = up;
}

static void insert_repair(struct tree *t, struct node *node)
{
    while (node->parent->red) {
        struct node *above = node->parent->parent;
        int at = side(node->parent);
        struct node *uncle = above->child[!at];
        if (uncle->red) {
            node->parent->red = uncle->red = 0;
            above->red = 1;
            node = above;
            continue;
        }
        if (side(node) != at) {
            node = node->parent;
            rotate(t, node, at);
        }
        node->parent->red = 0;
        above->red = 1;
        rotate(t, above, !at);
    }
    t->top->red = 0;
}

static void insert(struct tree *t, struct node *parent, uint64_t key)
{
    struct node *node = block_new(node_bytes());
    node->parent = parent;
    node->child[0] = node->child[1] = t->nil;
    node->red = 1;
    node->key = key;
    payload_store(node->words, key, mix(key));
    if (parent == t->nil)
        t->top = node;
    else
        parent->child[key > parent->key] = node;
    t->count++;
    insert_repair(t, node);
}

static void delete_repair(struct tree *t, struct node *node)
{
    while (node != t->top && !node->red) {
        int at = side(node);
        struct node *sibling = node->parent->child[!at];
        if (sibling->red) {
            sibling->red = 0;
            node->parent->red = 1;
            rotate(t, node->parent, at);
            sibling = node->parent->child[!at];
        }
        if (!sibling->child[0]->red && !sibling->child[1]->red) {
            sibling->red = 1;
            node = node->parent;
            continue;
        }
        if (!sibling->child[!at]->red) {
            sibling->child[at]->red = 0;
            sibling->red = 1;
            rotate(t, sibling, !at);
            sibling = node->parent->child[!at];
        }
        sibling->red = node->parent->red;
        node->parent->red = 0;
        sibling->child[!at]->red = 0;
        rotate(t, node->parent, at);
        node = t->top;
    }
    node->red = 0;
}

static void delete(struct tree *t, struct node *node)
{
    struct node *out = node, *in;
    if (node->child[0] != t->nil && node->child[1] != t->nil)
        for (out = node->child[1]; out->child[0] != t->nil;)
            out = out->child[0];
    uint64_t was_red = out->red;
    in = out->child[out->child[0] == t->nil];
    replace(t, out, in);
    if (!was_red)
        delete_repair(t, in);
    if (out != node) {
        /* The repair may have moved the node, and made it another one's parent. */
        replace(t, node, out);
        out->red = node->red;
        for (int i = 0; i < 2; i++) {
            out->child[i] = node->child[i];
            if (out->child[i] != t->nil)
                out->child[i]->parent = out;
        }
    }
    t->count--;
    block_free(node);
}

/* Inserts the key, or deletes it. */
static void toggle(struct tree *t, uint64_t key)
{
    struct node *parent = t->nil, *node = t->top;
    while (node != t->nil && node->key != key) {
        parent = node;
        node = node->child[key > node->key];
    }
    if (node == t->nil)
        insert(t, parent, key);
    else
        delete(t, node);
}

static void setup(void)
{
    struct tree *t = block_zeros(sizeof *t);
    t->nil = block_zeros(node_bytes());
    t->nil->parent = t->nil->child[0] = t->nil->child[1] = t->nil;
    t->top = t->nil;
    root->data = t;
    for (uint64_t i = 0; i < options.size; i++) {
        toggle(t, 2 * i);
        if (i % 4 == 0)
            step();
    }
}

static void start(void)
{
    locks = locks_new(1);
}

static void operate(struct worker *worker)
{
    uint64_t key = random_below(worker, 2 * options.size);
    lock(locks);
    toggle(tree(), key);
    counted(worker);
    unlock(locks);
}

/* The black height below a node whose keys are from `least` to less than `limit`; -1 if that is no tree. */
static int verify_node(const struct node *node, const struct node *parent, uint64_t least, uint64_t limit,
                       uint64_t *left)
{
    if (node == tree()->nil)
        return 0;
    if (!in_pool(node, node_bytes()) || (*left)-- == 0)
        return wrong("a child of key %" PRIu64 " is at %p", parent->key, (const void *)node), -1;
    if (node->key < least || node->key >= limit)
        return wrong("key %" PRIu64 " stands below key %" PRIu64, node->key, parent->key), -1;
    if (node->parent != parent)
        return wrong("key %" PRIu64 " does not know its parent", node->key), -1;
    if (node->red > 1 || (node->red && parent->red))
        return wrong("key %" PRIu64 " is red below a red one", node->key), -1;
    unsigned torn = payload_torn(node->words, node->key);
    if (torn < options.stores || node->words[0] != mix(node->key))
        return wrong("key %" PRIu64 ": word %u is of another", node->key, torn % options.stores), -1;
    int one = verify_node(node->child[0], node, least, node->key, left);
    int other = one < 0 ? -1 : verify_node(node->child[1], node, node->key + 1, limit, left);
    if (one < 0 || other < 0)
        return -1;
    if (one != other)
        return wrong("below key %" PRIu64 " there are %d and %d black nodes", node->key, one, other), -1;
    return one + !node->red;
}

static const char *verify(void)
{
    const struct tree *t = tree();
    if (!in_pool(t, sizeof *t) || !in_pool(t->nil, node_bytes()))
        return wrong("there is no tree");
    uint64_t left = t->count;
    if (t->nil->red)
        return wrong("the leaf is red");
    if (verify_node(t->top, t->nil, 0, 2 * options.size, &left) < 0)
        return reason;
    return left ? wrong("%" PRIu64 " nodes of %" PRIu64 " are not in the tree", left, t->count) : NULL;
}

int main(int count, char **arguments)
{
    static const struct benchmark rb = {"rbtree", "keys at the beginning", 4096, bytes, setup, start,
                                        operate, verify};
    return sfr_main(&rb, count, arguments);
}
