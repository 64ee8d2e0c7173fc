import java.util.concurrent.CountDownLatch;

/** SIGTERM: tells the client to stop, and lets the process end only when it has said so. */
final class StopSignal {
    private final CountDownLatch done = new CountDownLatch(1);
    private volatile boolean set;

    StopSignal() {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            set = true;
            try {
                done.await();
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
            }
        }));
    }

    boolean isSet() {
        return set;
    }

    /** The client has stopped cleanly: the process may end. */
    void done() {
        done.countDown();
    }
}
