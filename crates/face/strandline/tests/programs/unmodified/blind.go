// The shapes of blind.c, which judges them: blind SHAPE wrong|fixed, in the folder d.
package main

import (
	"fmt"
	"os"
	"strings"
)

var fixed bool

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func opened(path string, flags int) *os.File {
	file, err := os.OpenFile(path, flags, 0o644)
	must(err)
	return file
}

func put(file *os.File, text string) {
	_, err := file.WriteString(text)
	must(err)
}

func synced(path string) {
	file := opened(path, os.O_RDONLY)
	must(file.Sync())
	must(file.Close())
}

func written(path string, flags int, text string) {
	file := opened(path, os.O_WRONLY|os.O_CREATE|flags)
	put(file, text)
	must(file.Sync())
	must(file.Close())
}

func renamed(from, to string) {
	must(os.Rename(from, to))
	synced("d")
}

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
	written("d/index.tmp", 0, "1300\n")
	renamed("d/index.tmp", "d/index")
}

func header() {
	file := opened("d/db", os.O_RDWR)
	_, err := file.WriteAt([]byte(strings.Repeat("p", 4096)), 3*4096)
	must(err)
	if fixed {
		must(file.Sync())
	}
	_, err = file.WriteAt([]byte("2 3\n"), 4096)
	must(err)
	must(file.Sync())
}

func wal() {
	written("d/wal.2", 0, strings.Repeat("w", 700))
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
	written("d/config.tmp", flags, strings.Repeat("n", count))
	renamed("d/config.tmp", "d/config")
}

func config() {
	if fixed {
		temp(700)
	} else {
		written("d/config", os.O_TRUNC, strings.Repeat("n", 700))
	}
}

func main() {
	fixed = os.Args[2] == "fixed"
	shapes := map[string]func(){
		"log": log, "index": index, "header": header, "wal": wal, "config": config,
		"temp": func() { temp(3000) },
	}
	shapes[os.Args[1]]()
}
