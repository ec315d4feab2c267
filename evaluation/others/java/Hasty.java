import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Micrometer looks once a minute for new meters of a client. A lab compresses time. */
final class Hasty extends ScheduledThreadPoolExecutor {
    Hasty() {
        super(1, task -> {
            Thread made = new Thread(task, "hasty");
            made.setDaemon(true);
            return made;
        });
    }

    @Override
    public ScheduledFuture<?> scheduleAtFixedRate(Runnable task, long first, long period, TimeUnit unit) {
        long brief = unit.toMillis(period) / 15;
        return super.scheduleAtFixedRate(task, brief, brief, TimeUnit.MILLISECONDS);
    }
}
