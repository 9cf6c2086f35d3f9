// The shapes of blind.c, which judges them: blind SHAPE wrong|fixed, in the folder d.
package main

import (
	"fmt"
	"os"
	"strings"
)

func log() {
	file := opened("d/log", os.O_WRONLY|os.O_APPEND)
	for i := 0; i < 2; i++ {
		record := fmt.Sprintf("W%06d\n%s", 1500, strings.Repeat("r", 1500))
		if fixed {
			record = fmt.Sprintf("F%sC%06d\n", record[1:], 1500*'r')
		}
		put(file, record)
		must(file.Sync())
	}
}

func index() {
	file := opened("d/data", os.O_WRONLY|os.O_APPEND)
	put(file, strings.Repeat("d", 700))
	if fixed {
		must(file.Sync())
	}
	written("d/index.tmp", 0, "1300\n", true)
	renamed("d/index.tmp", "d/index")
}

func header() {
	file := opened("d/db", os.O_RDWR)
	putAt(file, strings.Repeat("p", 4096), 3*4096)
	if fixed {
		must(file.Sync())
	}
	putAt(file, "2 3\n", 4096)
	must(file.Sync())
}

func wal() {
	written("d/wal.2", 0, strings.Repeat("w", 700), true)
	if fixed {
		synced("d")
	}
	must(os.Remove("d/wal.1"))
	synced("d")
}

func temp(count int) {
	flags := 0
	if fixed {
		flags = os.O_TRUNC
	}
	written("d/config.tmp", flags, strings.Repeat("n", count), true)
	renamed("d/config.tmp", "d/config")
}

func config() {
	if fixed {
		temp(700)
	} else {
		written("d/config", os.O_TRUNC, strings.Repeat("n", 700), true)
	}
}

func unsynced() {
	written("d/config.tmp", os.O_TRUNC, strings.Repeat("n", 700), fixed)
	renamed("d/config.tmp", "d/config")
}

func super() {
	file := opened("d/super", os.O_WRONLY)
	for at := int64(0); at <= 4096; at += 4096 {
		putAt(file, strings.Repeat("n", 2048), at)
		if fixed || at > 0 {
			must(file.Sync())
		}
	}
}

func reused() {
	file := opened("d/reused", os.O_WRONLY)
	for at := int64(0); at < 4; at++ {
		putAt(file, fmt.Sprintf("%06d\n%s", 5+at, strings.Repeat("r", 505)), at*512)
		must(file.Sync())
	}
}

func main() {
	fixed = os.Args[2] == "fixed"
	shapes := map[string]func(){
		"log": log, "index": index, "header": header, "wal": wal, "config": config,
		"unsynced": unsynced, "super": super, "reused": reused,
		"temp": func() { temp(3000) },
	}
	shapes[os.Args[1]]()
}
