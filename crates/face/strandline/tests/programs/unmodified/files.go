// What the programs of shapes do to files.
package main

import "os"

// Whether it is the fixed twin that runs.
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

func putAt(file *os.File, text string, at int64) {
	_, err := file.WriteAt([]byte(text), at)
	must(err)
}

func synced(path string) {
	file := opened(path, os.O_RDONLY)
	must(file.Sync())
	must(file.Close())
}

// A file with this text, durable if that is wanted, but for its name.
func written(path string, flags int, text string, durable bool) {
	file := opened(path, os.O_WRONLY|os.O_CREATE|flags)
	put(file, text)
	if durable {
		must(file.Sync())
	}
	must(file.Close())
}

func renamed(from, to string) {
	must(os.Rename(from, to))
	synced("d")
}
