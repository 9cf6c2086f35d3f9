// Threads, a child, a pipe, shared memory, timers and an epoll: its last line says whether all of it went on.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <sys/mman.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/epoll.h>
#include <stdint.h>
#include <sys/time.h>
static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER; static long total; static volatile int alarms;
static void on(int s){alarms++;}
static void*work(void*a){ for(int i=0;i<150;i++){ pthread_mutex_lock(&m); total+=(long)a; pthread_mutex_unlock(&m); usleep(20000);} return 0;}
int main(int argc,char**argv){ close_range(3,~0U,0); FILE*f=fopen(argv[1],"w"); int p[2]; pipe(p); volatile long*sh=mmap(0,4096,3,MAP_SHARED|MAP_ANONYMOUS,-1,0);
 signal(SIGALRM,on);
 pid_t c=fork(); if(!c){ close(p[0]); for(int i=0;i<100;i++){ dprintf(p[1],"%d ",i); (*sh)++; usleep(30000);} _exit(3);} close(p[1]);
 struct {long a,b,c,d;} it={0,100000,0,100000}; setitimer(0,(void*)&it,0);
 pthread_t t[4]; for(long i=0;i<4;i++)pthread_create(t+i,0,work,(void*)(i+1));
 int ep=epoll_create1(0), tf=timerfd_create(1,0); struct itimerspec ts={{0,50000000},{0,50000000}}; timerfd_settime(tf,0,&ts,0);
 struct epoll_event e={.events=EPOLLIN,.data.u64=42}; epoll_ctl(ep,1,tf,&e); long ticks=0; for(int i=0;i<60;){ struct epoll_event o; if(epoll_wait(ep,&o,1,-1)==1&&o.data.u64==42){uint64_t n; read(tf,&n,8); ticks+=n; i++;}}
 for(int i=0;i<4;i++){pthread_join(t[i],0);} char buf[4096]; long sum=0; int n; FILE*r=fdopen(p[0],"r"); while(fscanf(r,"%d",&n)==1)sum+=n; int st=-1; pid_t w=waitpid(c,&st,0);
 rewind(f); fprintf(f,"total %ld sum %ld shared %ld child %d ticks %d alarms %d\n",total,sum,*sh,w==c?WEXITSTATUS(st):-1,ticks>=60,alarms>10); return 5;}
