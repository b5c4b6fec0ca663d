"""The application's names and the few numbers that its results depend on."""

from typing import Final

AD_EVENTS_RAW: Final = "ad_events_raw"
ORDERS_RAW: Final = "orders_raw"
AD_EVENTS: Final = "ad_events"
ORDERS: Final = "orders"
LATE: Final = "ad_events_late"
DEAD: Final = "ad_events_dead"
MINUTES: Final = "ad_minutes"
ATTRIBUTED: Final = "attributed_orders"
RAW: Final = (AD_EVENTS_RAW, ORDERS_RAW)
MADE: Final = (AD_EVENTS, ORDERS, LATE, DEAD, MINUTES, ATTRIBUTED)

IMPRESSION: Final = "impression"
CLICK: Final = "click"
ORDER: Final = "order"
HEARTBEAT: Final = "heartbeat"  # says that time has passed, and nothing else

MINUTE_MS: Final = 60_000
HORIZON_MS: Final = 2 * MINUTE_MS  # an event that arrives later than this after it happened is late
AHEAD_MS: Final = MINUTE_MS  # clocks of the world may be ahead of ours by so much
WINDOW_MS: Final = 15 * MINUTE_MS  # an order is owed to what its user saw or clicked this long before
# Spark forgets state this long after. It must cover the horizon, an epoch of `clean` (its records arrive in any order
# downstream) and what one partition may be read ahead of another; rows that fall behind stop the pipeline.
WATERMARK_MS: Final = 20 * MINUTE_MS
START_MS: Final = 1_772_323_200_000  # 2026-03-01T00:00Z: where the generator's time begins
