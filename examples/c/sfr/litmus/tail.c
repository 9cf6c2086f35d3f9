/*
 * A list is appended to under a lock: the last node leads to the new one, then the tail does. The tail
 * must not survive without the link: acquire-release persistency permits that, failure-atomic regions do
 * not. The crash comes in between.
 */
#include "litmus.h"

struct node {
    struct node *next;
    uint64_t value;
};

struct list {
    struct node *head, *tail;
    struct node node[3];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void append(struct list *list, struct node *node, uint64_t value, bool dies)
{
    pthread_mutex_lock(&lock);
    node->value = value;
    list->tail->next = node;
    if (dies)
        die();
    list->tail = node;
    pthread_mutex_unlock(&lock);
}

int main(int count, char **arguments)
{
    bool check = litmus(count, arguments, sizeof(struct list));
    struct list *list = root;
    if (!check) {
        pthread_mutex_lock(&lock);
        list->head = list->tail = &list->node[0];
        pthread_mutex_unlock(&lock);
        append(list, &list->node[1], 1, false);
        append(list, &list->node[2], 2, true);
    }
    const struct node *last = list->head;
    uint64_t length = 0;
    for (; last && last->next; last = last->next)
        length++;
    char text[64];
    const char *tail = last == list->tail ? "last" : "not last";
    snprintf(text, sizeof text, "length=%u tail=%s", (unsigned)length, tail);
    return outcome(last == list->tail, text);
}
