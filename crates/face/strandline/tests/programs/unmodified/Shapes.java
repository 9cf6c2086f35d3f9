import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.*;
import static java.nio.file.StandardOpenOption.*;

/**
 * Shapes of public reports, each with its fixed twin: Shapes SHAPE wrong|fixed, in the folder d.
 * Shapes lock wrong|fixed FOLDER is the recovery of `lock`.
 */
class Shapes {
    static boolean fixed;

    static void put(FileChannel file, String text, long at) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(text.getBytes());
        if (at < 0) file.write(bytes);
        else file.write(bytes, at);
    }

    static void syncFolder() throws IOException {
        try (FileChannel folder = FileChannel.open(Path.of("d"), READ)) {
            folder.force(true);
        }
    }

    static void create(String name, String text, boolean durable) throws IOException {
        try (FileChannel file = FileChannel.open(Path.of(name), CREATE, TRUNCATE_EXISTING, WRITE)) {
            put(file, text, -1);
            if (durable) file.force(true);
        }
    }

    static void rename(String from, String to) throws IOException {
        Files.move(Path.of(from), Path.of(to), StandardCopyOption.ATOMIC_MOVE);
    }

    /** CURRENT names the version; the old one is removed when the new one is in place. */
    static void manifest() throws IOException {
        create("d/data-2", "version 2\n", true);
        create("d/CURRENT.tmp", "2\n", true);
        if (fixed) syncFolder();
        rename("d/CURRENT.tmp", "d/CURRENT");
        if (fixed) syncFolder();
        Files.delete(Path.of("d/data-1"));
        System.out.println("saved 2");
    }

    /** The log is emptied when a checkpoint has its records. */
    static void checkpoint() throws IOException {
        FileChannel log = FileChannel.open(Path.of("d/log"), WRITE);
        for (int i = 1; i <= 4; i++) {
            put(log, i + "\n", -1);
            log.force(true);
            System.out.println("saved " + i);
        }
        create("d/checkpoint.tmp", "4\n", fixed);
        rename("d/checkpoint.tmp", "d/checkpoint");
        if (fixed) syncFolder();
        log.truncate(0);
        log.force(true);
    }

    /** The length at 0 says how many bytes from 4096 on are data. */
    static void length() throws IOException {
        FileChannel file = FileChannel.open(Path.of("d/data"), WRITE);
        for (int i = 1; i <= 3; i++) {
            String count = String.format("%08d", 500 * i);
            if (!fixed) put(file, count, 0);
            put(file, "x".repeat(500), 4096 + 500 * (i - 1));
            file.force(true);
            if (fixed) {
                put(file, count, 0);
                file.force(true);
            }
        }
    }

    /** The second sync fails. Its pages may be gone then: what is certain is a new file. */
    static void swallowed() throws IOException {
        FileChannel log = FileChannel.open(Path.of("d/log"), WRITE, APPEND);
        StringBuilder all = new StringBuilder();
        for (int i = 1; i <= 3; i++) {
            all.append(i).append("\n");
            put(log, i + "\n", -1);
            try {
                log.force(true);
            } catch (IOException error) {
                if (fixed) {
                    create("d/log.new", all.toString(), true);
                    rename("d/log.new", "d/log");
                    syncFolder();
                    log = FileChannel.open(Path.of("d/log"), WRITE, APPEND);
                }
            }
            System.out.println("saved " + i);
        }
    }

    /** Each file of the folder is a segment, but for the lock; one that begins with a dot is not finished. */
    static void lock() throws IOException {
        create("d/LOCK", "pid\n", false);
        create("d/.2", "segment\n", true);
        rename("d/.2", "d/2");
        syncFolder();
        System.out.println("saved 2");
        Files.delete(Path.of("d/LOCK"));
    }

    static void recoverLock(String folder) throws IOException {
        try (DirectoryStream<Path> names = Files.newDirectoryStream(Path.of(folder))) {
            for (Path path : names) {
                String name = path.getFileName().toString();
                if (name.startsWith(".") || (fixed && name.equals("LOCK"))) continue;
                if (Files.readString(path).equals("segment\n")) continue;
                System.out.println(name + " is no segment");
                System.exit(1);
            }
        }
    }

    public static void main(String[] words) throws IOException {
        fixed = words[1].equals("fixed");
        switch (words[0]) {
            case "manifest" -> manifest();
            case "checkpoint" -> checkpoint();
            case "length" -> length();
            case "swallowed" -> swallowed();
            default -> {
                if (words.length > 2) recoverLock(words[2]);
                else lock();
            }
        }
    }
}
